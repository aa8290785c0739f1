# Lets a child end it, by the signal that means out of memory.
# ends: killed
import os, signal, time
tried("end")
if os.fork() == 0:
    os.kill(os.getppid(), signal.SIGKILL)
    os._exit(0)
time.sleep(60)
