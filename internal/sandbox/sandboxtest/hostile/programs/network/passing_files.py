# Hands open files to its neighbours and to the service, over every socket and pipe that it has.
import array, os, socket
for fd in range(0, 300):
    if own(fd): continue
    try: s = socket.socket(fileno=os.dup(fd))
    except OSError as e: tried("file %d is no socket: %s" % (fd, e)); continue
    refused("send a file over file %d" % fd, s.sendmsg, [b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
a, b = socket.socketpair()
count = 0
try:
    for i in range(5000): a.setblocking(False); a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [a.fileno(), b.fileno()] * 100))]); count += 200
except OSError as e: tried("%d files under way: %s" % (count, e))
done()
