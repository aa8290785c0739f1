# Nests folders whose names are as long as they get and turn six times as long as text.
import os
n = 0
try:
    while n < 120:
        os.mkdir("\x01" * 255); os.chdir("\x01" * 255)
        open("\x02" * 255, "w").write("x")
        n += 1
except OSError as e: tried(e)
tried("%d folders deep" % n)
for i in range(600):
    try: open("\x03" * 250 + "%05d" % i, "w").close()
    except OSError: break
done()
