# Makes a device node by renaming, and leaves it for the collector.
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for folder in ("/workspace/", "/tmp/", "/dev/shm/"):
    open(folder + "a", "w").write("x")
    result = libc.renameat2(-100, (folder + "a").encode(), -100, (folder + "b").encode(), 4)
    tried("RENAME_WHITEOUT in %s: %d" % (folder, result))
    if result == 0: refused("open it", os.open, folder + "a", os.O_RDWR)
done()
