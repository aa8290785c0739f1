# Makes files of a terabyte, by every call that makes a file longer.
import ctypes, os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
fd = os.open("huge", os.O_RDWR | os.O_CREAT, 0o600)
for size in (1 << 40, 1 << 50, (1 << 63) - 1):
    refused("grow to %d" % size, os.ftruncate, fd, size)
    refused("allocate %d" % size, os.posix_fallocate, fd, 0, size)
    refused("write at %d" % size, os.pwrite, fd, b"x", size - 1)
    refused("allocate far %d" % size, os.posix_fallocate, fd, size - 4096, 4096)
os.ftruncate(fd, 1 << 20)
tried("size %d" % os.fstat(fd).st_size)
done()
