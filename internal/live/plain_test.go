package live

import "testing"

// TestPlain compares what Plain in live.py makes of code and values with what IPython
// makes of them: code that stays as it is, and the forms of numbers and strings.
func TestPlain(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	const code = `from IPython.core.interactiveshell import InteractiveShell
shell, texts = get_ipython(), '''1
x + 1
x = 1; y
(x)
x.real
print("a", 'b')
ls
ls = 3
ls -l
who
exit.x
time.time()
 x
%time 1
x %time 1
!ls
x != 1
?x
x?
f?
/f 1
,f a b
;f a b
>>> 1
... 1
In [1]: x
In[1]
%%time
a = %time 1
a = !ls
# PYTHON-MODE
"a\u2028b"
"a\x0cb"
macro
%precision 3
(
\\
'''.split("\n")
texts += [a + "\n" + b for a in texts for b in texts] + ["", "\n", "x\n", "x\n\n", "x\r\ny", "def f():\n    x\n\n", "\nx", "f(\n/2)", "f(\n,2)", "if x:\n    ls\n"]
from IPython.core.macro import Macro
macro = Macro("1 + 1\n")
other = [text for text in texts if shell.transform_cell(text) != InteractiveShell.transform_cell(shell, text)]
values = [1, -1, 0, 10**50, 10**5000, 1.5, 0.1, 1e300, float("nan"), float("-inf"), -0.0, True, False, "", "a", "'", '"', "'\"", "a\nb", "\u2028\x00\ud800", "x" * 500, b"x", None, [1], (1,), {}, {1: 2}, {1}, range(3), 1j]
class Number(int):
    def _repr_html_(self): return "n"
values.append(Number(3))
cells = [cell.cell_contents for cell in type(shell.displayhook).__call__.__closure__]
form = next(cell.form for cell in cells if hasattr(cell, "form"))
known = [value for value in (1, 1.5, True, "a") if form(value) != repr(value)]
def differ():
    for value in values:
        text = form(value)
        if text is not None and ({"text/plain": text}, {}) != shell.display_formatter.format(value):
            yield value
import io, contextlib
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    found = [list(differ())]
    formatters = shell.display_formatter.formatters
    for kind in (int, object):
        formatters["text/html"].for_type(kind, lambda value: "<b>")
        found.append(list(differ()))
        formatters["text/html"].pop(kind)
    for kind in (int, float, str):
        before = formatters["text/plain"].for_type(kind, lambda value, p, cycle: p.text("other"))
        found.append(list(differ()))
        formatters["text/plain"].for_type(kind, before)
    formatters["text/html"].for_type_by_name("builtins", "str", lambda value: "<i>")
    found.append(list(differ()))
    formatters["text/html"].pop("builtins.str")
    shell.run_line_magic("precision", "2")
    found.append(list(differ()))
    shell.run_line_magic("precision", "")
    found.append(list(differ()))
    shell.input_transformers_post.append(lambda lines: ["2\n"])
    found.append([shell.transform_cell("1")])
    shell.input_transformers_post.clear()
other, known, [each for each in found if each]`
	c := p.run(s, code)
	if got, want := plain(t, c), `([], [], [['2\n']])`; got != want {
		t.Errorf("these differ: %s; %+v", got, c)
	}
}

// A figure is drawn for its bounds and for its picture, and for no other reason.
func TestFigureIsDrawnTwice(t *testing.T) {
	p := openWithPackages(t, Config{})
	s := p.session("python")
	p.want(p.run(s, `%matplotlib inline
import matplotlib.figure, matplotlib.pyplot as plt
drawn, draw = [], matplotlib.figure.Figure.draw
def counted(*all, **named):
    drawn.append(1)
    return draw(*all, **named)
matplotlib.figure.Figure.draw = counted
plt.plot([1, 2]);`), StatusOK)
	if got := plain(t, p.run(s, "len(drawn)")); got != "2" {
		t.Errorf("it was drawn %s times", got)
	}
}
