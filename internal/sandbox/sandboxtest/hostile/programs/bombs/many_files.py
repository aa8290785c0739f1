# Leaves more files than anybody wants, each below its limit.
n = 0
try:
    for i in range(900): open("f%03d" % i, "wb").write(b"x" * 60000); n += 1
except OSError as e: tried(e)
tried("%d files" % n)
done()
