import os as _os, sys as _sys
H = {k[2:]: v for k, v in _os.environ.items() if k.startswith("H_")}
_tried = 0
def _say(kind, what):
    _os.write(1, ("H:%s:%s:%s\n" % (H["NONCE"], kind, str(what).replace("\n", " ")[:200])).encode("utf-8", "replace"))
def tried(what):
    global _tried
    _tried += 1
    _say("tried", what)
def breach(what): _say("breach", what)
# What an interpreter that runs cells has open itself: its channel, and its loop's files.
def _target(fd):
    try: return _os.readlink("/proc/self/fd/%d" % fd)
    except OSError: return ""
_own = ["pipe:", "pipe:", "anon_inode:[eventpoll]", "socket:", "socket:"] if "CELL" in H else []
_own = {_target(3 + i) for i, kind in enumerate(_own) if _target(3 + i).startswith(kind)}
def own(fd): return _target(fd) in _own
def sockets_of_others():
    lines = open("/proc/net/unix").read().splitlines()[1:]
    return [l for l in lines if "socket:[%s]" % l.split()[-1] not in _own]
def refused(what, attempt, *args):
    """Tries something that must not work."""
    try: result = attempt(*args)
    except (OSError, ValueError, OverflowError) as e: tried("%s: %s" % (what, e))
    else: tried(what); breach("%s gave %r" % (what, result))
def done(): _say("done", _tried)
def syscall(number, *args):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if result == -1: raise OSError(ctypes.get_errno(), _os.strerror(ctypes.get_errno()))
    return result
CANARY = "airlock-" + "canary-"  # never in one piece in our own memory
