# Looks for memory that it shares with others, and spoils it.
import ctypes, os
shared = [l.split() for l in open("/proc/self/maps") if l.split()[1].endswith("s") and "w" in l.split()[1]]
tried("%d shared mappings" % len(shared))
# One page is shared with the sandbox's own pid 1, which believes nothing but a number in it.
if len(shared) > 1: breach("shared with others: %s" % shared)
for mapping in shared:
    first, last = (int(x, 16) for x in mapping[0].split("-"))
    if last - first > 4096: breach("it is %d bytes" % (last - first))
    for value in (0, 0xff, 0x41):
        ctypes.memset(first, value, last - first)
        tried("filled with %d" % value)
    ctypes.memset(first, 0, last - first)
done()
