# Prints its last words from many processes while everything ends: none may be another run's.
import os, sys, threading
tried("words")
for i in range(20):
    if os.fork() == 0:
        for j in range(200): os.write(1, ("word %d %d\n" % (i, j)).encode())
        os._exit(0)
done()
os._exit(0)
