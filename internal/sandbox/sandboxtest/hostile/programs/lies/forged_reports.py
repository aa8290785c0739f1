# Writes the reports of the sandbox's own init wherever it can write.
# cell: anyhow
import os, struct
reports = b"".join(struct.pack("=Iii", kind, 0, value) for kind in range(10) for value in (0, 7, -1, 256))
for fd in [*range(1, 1100)]:
    try: os.write(fd, reports if fd > 2 else b"")
    except OSError: continue
    if fd > 2 and not own(fd): breach("file %d takes reports" % fd)
tried("reports")
for path in ("/proc/1/fd/900", "/proc/1/fd/901", "/dev/fd/900", "/proc/self/fd/901", "/proc/self/fd/100"): refused(path, os.open, path, os.O_WRONLY)
done()
