package linux

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// cutCheck compares the quick way to cut off a program's last expression with the
// complete one, and prints how often the quick way was used.
const cutCheck = `
import _ast, sys
source = open("../guest/program.py").read()
own = {}
exec("import _ast\nONLY_AST = 0x400\n" + source[source.index("def load("):source.index("def reopen_streams(")], own)
own["LONG"] = 0
tails = """1+1
---
f(
1
)
---
x = 1
---
x = '''
foo()
'''
---
'''
foo()
'''
---
if 1:
  5
else:
  6
---
@d
def f(): pass
---
1; 2;
---
x = 1 + \\
5
---
5  # c

# end
---
try:
  1
except E:
  2
---
await f()
---
x =
---
x = '''a'''; y = '''
5
'''
---
a
.b
---
x = 'a\\
b'
---
f'''
{1
}'''
---
def f():
  return 1
f()
---
x: int
---
'''
x = 1 # '''; 5
---
class A:
  '''
foo()
'''
---
print(1)
""".split("---\n")
heads = ["import a\n", "'''doc'''\n", "s = '''\n5\n", "f(\n", "x = \\\n", "s = '''a''' + 'b'\n'''\nk\n'''\n", "from __future__ import annotations\n", "@g\n", "# coding: latin-1\nx = 1\n"]
quick = 0

def told(cut, text):
    try:
        codes = cut(text, "x")
    except SyntaxError as error:
        return [error.msg, error.lineno]
    return codes and [(c, list(c.co_lines()), c.co_flags) for c in codes]

for text in [(h + "z = 3\n" + t).encode() for h in heads for t in tails] + [open(__import__(m).__file__, "rb").read() + e for m in ("ast", "argparse", "inspect", "typing", "pdb") for e in (b"", b"\nfoo.bar(1)\n")]:
    got, want = told(own["cut_quickly"], text), told(own["cut"], text)
    if got is None:
        continue
    quick += 1
    if got != want:
        print("differs:", text[-200:], got, want)
print(quick > 40 or quick)
`

// The quick way to find the last expression has the same result as the slow one.
func TestCutQuickly(t *testing.T) {
	python := exec.Command("/usr/bin/python3", "-c", cutCheck)
	python.Stderr = os.Stderr
	out, err := python.Output()
	if err != nil || strings.TrimSpace(string(out)) != "True" {
		t.Errorf("%v\n%s", err, out)
	}
}
