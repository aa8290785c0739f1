# Nests brackets, patterns and code until the interpreter breaks by itself.
# ends: anyhow
# timeout: 1s
import json, os, re
tried("nest")
for attempt in (lambda: json.loads("[" * 10**6), lambda: eval("(" * 10**5 + ")" * 10**5), lambda: compile("-" * 10**6 + "1", "x", "eval"), lambda: re.match("(a+)+$", "a" * 28 + "!")):
    if os.fork() == 0:
        try: attempt()
        except BaseException: pass
        os._exit(0)
for _ in range(4): os.wait()
done()
