# Leaves files that are large and empty.
import os
for i, size in enumerate((1 << 30, 1 << 40, (1 << 63) - 1, 17 << 20, 15 << 20)):
    try: fd = os.open("hole%d" % i, os.O_CREAT | os.O_RDWR); os.ftruncate(fd, size); os.pwrite(fd, b"x", size - 1)
    except OSError as e: tried("%d: %s" % (size, e))
    else: tried(size)
refused("allocate", os.posix_fallocate, fd, 0, 1 << 40)
done()
