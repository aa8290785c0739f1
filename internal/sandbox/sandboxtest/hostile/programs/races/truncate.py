# Grows and cuts files while they are collected and read.
import os
tried("truncate")
for n in range(4):
    if os.fork() == 0:
        os.setsid()
        fd = os.open("file%d" % n, os.O_CREAT | os.O_RDWR)
        while True: os.pwrite(fd, b"x" * 50000, 0); os.ftruncate(fd, 0); os.ftruncate(fd, 1 << 20)
import time; time.sleep(0.1)
done()
