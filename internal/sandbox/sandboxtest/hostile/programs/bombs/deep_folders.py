# Nests folders as deeply as it can, and cannot be listed by any path.
import os
n = 0
try:
    while n < 20000: os.mkdir("d"); os.chdir("d"); n += 1
except OSError as e: tried("%d folders deep: %s" % (n, e))
done()
