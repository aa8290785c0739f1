# Stops all of its processes, itself included.
# ends: timeout
# timeout: 1s
import os, signal, time
tried("stop")
for i in range(20):
    if os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP); time.sleep(60)
os.kill(0, signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(60)
