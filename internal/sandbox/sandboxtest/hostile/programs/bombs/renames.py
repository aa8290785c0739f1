# Renames folders with everything in them, round and round, by many processes at once.
# ends: anyhow
# timeout: 1s
import os
tried("rename")
for i in range(8): os.makedirs("a%d/b/c/d" % i); open("a%d/b/c/d/file" % i, "w").write("x")
for i in range(4): os.fork()
while True:
    for i in range(8):
        for a, b in (("a%d/b" % i, "a%d/moved" % ((i + 1) % 8)), ("a%d" % i, "z"), ("z", "a%d" % i), ("a%d/moved" % ((i + 1) % 8), "a%d/b" % i), ("a%d/b/c" % i, "c")):
            try: os.rename(a, b)
            except OSError: pass
