# Changes the state of the open files that it was given: whoever shares one sees it.
# next: must see the same
import fcntl, os, signal
for fd in (0, 1, 2):
    for what, change in (("flags", lambda: fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND)), ("owner", lambda: fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())), ("signal", lambda: fcntl.fcntl(fd, 10, signal.SIGKILL)),
                         ("lock", lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)), ("position", lambda: os.lseek(fd, 12345, 0)), ("mode", lambda: os.fchmod(fd, 0)), ("owner of the file", lambda: os.fchown(fd, os.getuid(), -1)),
                         ("size of the pipe", lambda: fcntl.fcntl(fd, 1031, 4096)), ("hint", lambda: fcntl.fcntl(fd, 1038, b"\5" + bytes(7)))):
        try: change()
        except OSError as e: tried("%s of %d: %s" % (what, fd, e))
        else: tried("%s of %d" % (what, fd))
done()
