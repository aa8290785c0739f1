# Asks for names that do not exist, each of which the kernel remembers.
# ends: anyhow
# timeout: 1s
import os
tried("names")
for i in range(4): os.fork()
i = 0
while True:
    i += 1
    for folder in ("/usr/lib", "/workspace", "/tmp", "/etc", "/proc"):
        try: os.stat("%s/%d-%d-%s" % (folder, os.getpid(), i, "n" * 200))
        except OSError: pass
