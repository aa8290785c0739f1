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
