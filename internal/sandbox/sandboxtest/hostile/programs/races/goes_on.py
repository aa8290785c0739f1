# Says that it is done, and goes on: a timer wakes it from its stop while its files are collected.
# ends: anyhow
# timeout: 2s
import ctypes, os, signal, struct
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGCONT, lambda *a: None)  # ignored, it would come only once
event = ctypes.create_string_buffer(64)
struct.pack_into("=QiI", event, 0, 0, signal.SIGCONT, 0)  # struct sigevent: a signal
timer = ctypes.c_int()
clock, settime = (222, 223) if os.uname().machine == "x86_64" else (107, 110)
syscall(clock, 1, event, ctypes.byref(timer))
syscall(settime, timer.value, 0, struct.pack("=qqqq", 0, 1000000, 0, 1000000), None)
open("aa", "w").write("x")
for i in range(900): os.mkdir("f%03d" % i)
tried("timer")
for line in open("/proc/self/maps"):
    if line.split()[1].endswith("s") and "w" in line.split()[1] and line.split()[-1] == "(deleted)":
        ctypes.memmove(int(line.split("-")[0], 16), struct.pack("=Ii", 0x646F6E65, 0), 8)  # the sign of the end, as the interpreter before it gives it
os.sched_yield()
pid = os.getpid()
os.kill(pid, signal.SIGSTOP)
done()
# From here on it should not exist: what grows now is longer than it was collected as.
file = open("aa", "ab", 0)
while True:
    try: file.write(b"x" * 512)
    except OSError: pass
