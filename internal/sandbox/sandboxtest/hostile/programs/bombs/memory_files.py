# Takes memory in files without a name.
# ends: anyhow
# memory: 128
import os
kept = []
total = 0
try:
    for i in range(40):
        tried("memfd")
        fd = os.memfd_create("x")
        kept.append(fd)
        total += os.write(fd, b"x" * (16 << 20))
except OSError as e: tried(e)
if total >= 40 * (16 << 20): breach("%d MiB in files on 128" % (total >> 20))
