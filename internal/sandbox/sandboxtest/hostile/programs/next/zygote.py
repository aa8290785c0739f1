# Looks for a way back to the process that it was forked from.
# next: must see the same
import os, signal, socket, struct, threading
tried("parent %d" % os.getppid())
if os.getppid() not in (0, 1): breach("its parent is %d" % os.getppid())
for fd in range(3, 1100):
    if own(fd): continue
    for attempt in (lambda: os.write(fd, struct.pack("=Iii", 5, 0, 0)), lambda: socket.socket(fileno=os.dup(fd)).send(b"{}"), lambda: os.read(fd, 1)):
        try: attempt()
        except OSError: continue
        breach("file %d answers" % fd)
tried("files")
import sys
frame, names = sys._getframe(), []
while frame: names.append(frame.f_code.co_name); frame = frame.f_back
tried("frames %s" % names)
threading.Thread(target=lambda: signal.pause(), daemon=True).start()
done()
