# Leaves grandchildren without parents, terminal or open files.
import os, time
for i in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/"); os.umask(0); os.closerange(0, 1024)
            while True: time.sleep(1)
        os._exit(0)
tried("leave")
done()
