# Moves and removes the folder that it works in while it is collected, and puts another in its place.
# ends: anyhow
# timeout: 2s
import os
for i in range(100): os.makedirs("d%d/e" % i); open("d%d/e/f" % i, "w").write("x")
tried("move")
for i in range(4):
    if os.fork() == 0:
        os.setsid()
        while True:
            for n in range(100):
                for a, b in (("/workspace/d%d" % n, "/workspace/x%d" % i), ("/workspace/x%d" % i, "/workspace/d%d" % n), ("/workspace", "/w"), ("/workspace/d%d/e" % n, "/tmp/e")):
                    try: os.rename(a, b)
                    except OSError: pass
                try: os.symlink("/etc", "/workspace/d%d/e2" % n)
                except OSError: pass
done()
