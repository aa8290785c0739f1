# Writes all that /proc has for how soon pid 1 and itself get a processor, and computes with many.
# kernel: shared
# ends: timeout
# timeout: 1s
# processes: 140
# weaken: make /proc read-only, landlock
import os
for who in ("1", "self", "thread-self"):
    for name, value in (("autogroup", b"19"), ("sched", b"0"), ("timerslack_ns", b"4000000000"), ("oom_score_adj", b"0"), ("comm", b"x"), ("coredump_filter", b"0x7f"), ("clear_refs", b"5"), ("loginuid", b"0")):
        path = "/proc/%s/%s" % (who, name)
        if who != "1" and not os.path.exists(path): continue
        def attempt():
            fd = os.open(path, os.O_WRONLY)
            try: return os.write(fd, value)
            finally: os.close(fd)
        refused(path, attempt)
for i in range(120):
    if os.fork() == 0:
        while True: pass
while True: pass
