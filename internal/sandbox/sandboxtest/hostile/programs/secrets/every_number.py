# Looks for processes that are not its own, by every number, signal, priority, group, clock and session.
import os, time
own = {int(p) for p in os.listdir("/proc") if p.isdigit()}
seen = set()
for pid in range(1, 70000):
    for ask in (lambda: os.kill(pid, 0), lambda: os.getsid(pid), lambda: os.sched_getscheduler(pid)):
        try: ask()
        except PermissionError: seen.add(pid); break
        except OSError: pass
        else: seen.add(pid); break
tried("%d numbers" % len(seen))
for pid in seen - own - {1}:
    if not os.path.exists("/proc/%d" % pid): breach("process %d is there" % pid)
if len(seen) > 8: breach("%d processes are there: %s" % (len(seen), sorted(seen)[:20]))
done()
