# Executes programs with megabytes of arguments, again and again.
import os, subprocess
for size in (1000, 100000, 131071, 4 << 20):
    try: r = subprocess.run(["true"] + ["x" * min(size, 131000)] * (size // 131000 + 1), env={"A": "y" * min(size, 131000)})
    except OSError as e: tried("%d: %s" % (size, e))
    else: tried("%d: %d" % (size, r.returncode))
done()
