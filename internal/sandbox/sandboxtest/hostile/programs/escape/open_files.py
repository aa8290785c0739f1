# Looks for files that somebody left open, and opens its own in other ways.
import fcntl, os, resource, socket, stat
for fd in range(3, 5000):
    try: fcntl.fcntl(fd, fcntl.F_GETFD)
    except OSError: continue
    if not own(fd): breach("file %d is open: %s" % (fd, os.readlink("/proc/self/fd/%d" % fd)))
tried("files above 2")
for fd in (0, 1, 2):
    mode = os.fstat(fd).st_mode
    tried("file %d is %o" % (fd, mode))
    if stat.S_ISDIR(mode) or stat.S_ISSOCK(mode) or stat.S_ISBLK(mode): breach("file %d is %s" % (fd, os.readlink("/proc/self/fd/%d" % fd)))
    refused("the folder of file %d" % fd, os.listdir, "/proc/self/fd/%d/.." % fd)
def write_input():
    if stat.S_ISCHR(os.fstat(0).st_mode): raise OSError("it is /dev/null")
    return os.write(os.open("/proc/self/fd/0", os.O_RDWR), b"x")
refused("write to stdin", write_input)
refused("grow stdin", os.ftruncate, 0, 1 << 20)
done()
