# Does not end its end: an exit handler, a destructor and a thread that go on for ever.
# cell: well
# ends: timeout
# timeout: 1s
import atexit, threading, time
class Stays:
    def __del__(self):
        while True: pass
keep = Stays()
atexit.register(lambda: [threading.Thread(target=time.sleep, args=(100,)).start(), time.sleep(100)])
threading.Thread(target=lambda: time.sleep(100)).start()
tried("end")
done()
