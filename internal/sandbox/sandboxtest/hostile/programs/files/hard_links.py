# Leaves one file under many names.
import os
open("one", "wb").write(b"x" * (12 << 20))
for i in range(100): os.link("one", "name%02d" % i)
os.link("given.txt", "given too")
tried("100 names")
done()
