# Fills every folder that it can write to.
import os
for folder, limit in (("/workspace", 64), ("/mnt/data", 64), ("/tmp", 64), ("/dev/shm", 64), ("/var/tmp", 64)):
    total, n = 0, 0
    try:
        while n < 20:
            with open("%s/fill%d" % (folder, n), "wb", 0) as f:
                for i in range(32): total += f.write(b"x" * (1 << 20))
            n += 1
    except OSError as e: tried("%s: %s" % (folder, e))
    if total > limit << 20: breach("%d MiB went into %s" % (total >> 20, folder))
    for i in range(n + 1):
        try: os.remove("%s/fill%d" % (folder, i))
        except OSError: pass
done()
