# Kills every process that there is, by every number and in every way.
# kernel: shared
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
for s in range(1, 65): signal.signal(s, signal.SIG_IGN) if s not in (9, 19, 32, 33) else None
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, 34, 63):
    try: os.kill(-1, number)
    except OSError as e: tried("all: %s" % e)
    else: tried("all")
reached = 0
for pid in range(3, 70000):
    try: os.kill(pid, signal.SIGKILL); reached += 1
    except OSError: pass
tried("70000 numbers")
if reached: breach("%d of them were there" % reached)
for number in (9, 15, 19, 34, 11, 6, 1):
    for send in (lambda: os.kill(1, number), lambda: libc.tgkill(1, 1, number), lambda: libc.syscall(200, 1, number), lambda: libc.sigqueue(1, number, ctypes.c_void_p(0)), lambda: os.killpg(1, number) if number not in (9, 19) else 0):
        try: send()
        except OSError: pass
    tried("pid 1 with %d" % number)
for which, who in ((os.PRIO_USER, 0), (os.PRIO_USER, os.getuid()), (os.PRIO_PGRP, 0)):
    try: os.setpriority(which, who, 19)
    except OSError as e: pass
    tried("priority")
done()
