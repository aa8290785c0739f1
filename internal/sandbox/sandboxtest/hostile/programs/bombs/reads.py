# Reads all of /usr again and again, to push out what others read.
# ends: anyhow
# timeout: 1s
import mmap, os
tried("read")
for i in range(3): os.fork()
while True:
    for folder, _, names in os.walk("/usr"):
        for name in names:
            try:
                with open(os.path.join(folder, name), "rb") as f: f.read(); f.seek(0); mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ).madvise(mmap.MADV_WILLNEED)
            except (OSError, ValueError): pass
