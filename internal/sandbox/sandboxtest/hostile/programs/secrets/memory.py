# Searches all memory that it has, that of the interpreter before it included.
import re
pattern = re.compile((CANARY + "[0-9A-Za-z_-]{8,}").encode())
total, found = 0, set()
with open("/proc/self/mem", "rb", 0) as memory:
    for line in open("/proc/self/maps"):
        span, rights = line.split()[:2]
        if rights[0] != "r" or "[v" in line: continue
        first, last = (int(x, 16) for x in span.split("-"))
        while first < last:
            size = min(last - first, 16 << 20)
            try:
                memory.seek(first)
                part = memory.read(size)
            except OSError: break
            total += len(part)
            found.update(pattern.findall(part))
            first += size
tried("%d MiB" % (total >> 20))
if total < 1 << 20: breach("only %d bytes were searched: nothing was tried" % total)
if found: breach("memory holds %s" % found)
done()
