# Forks when it ends: in handlers, in threads, in destructors.
import atexit, os, threading, time
def leave():
    if os.fork() == 0:
        os.setsid()
        time.sleep(300)
class Last:
    def __del__(self): leave()
last = Last()
for i in range(5): atexit.register(leave)
def later():
    time.sleep(0.05)
    leave()
threading.Thread(target=later).start()
tried("leave")
done()
