# Makes files without content until there are no more.
# kernel: shared
import os
for folder, limit in (("/workspace", 1001), ("/tmp", 10000), ("/dev/shm", 10000)):
    n = 0
    os.mkdir(folder + "/many")
    try:
        while n < 30000:
            os.close(os.open("%s/many/%d" % (folder, n), os.O_CREAT | os.O_WRONLY))
            n += 1
    except OSError as e: tried("%s: %d, %s" % (folder, n, e))
    if n > limit: breach("%d files in %s" % (n, folder))
    for i in range(n): os.remove("%s/many/%d" % (folder, i))
done()
