# An honest program that tells all that it sees: after hostile ones it must see the same.
import hashlib, json, os, random, struct, subprocess, sys
def show(name, value):
    if callable(value):
        try: value = value()
        except OSError as e: value = repr(e) # a kernel of its own lacks it
    print(name, json.dumps(value, sort_keys=True, default=str))
show("environment", dict(os.environ))
show("path", sys.path)
show("flags", str(sys.flags))
show("modules", [m for m in sorted(sys.modules) if getattr(sys.modules[m], "__file__", "")])
show("hooks", [str(sys.excepthook), str(sys.gettrace()), str(sys.getprofile()), len(sys.meta_path), len(sys.path_hooks), sys.getrecursionlimit()])
for folder in (".", "/tmp", "/tmp/matplotlib", "/dev/shm", "/dev", "/", "/opt/airlock", "/etc", "/mnt/data", "/usr/local"):
    show(folder, [(n, os.lstat(folder + "/" + n).st_mode) for n in sorted(os.listdir(folder))] if os.path.isdir(folder) else None)
show("numbers", [2 + 3, 255 + 1, -5 - 0, sum(range(257)), "a" + "b", b"x" * 3, True, None, (), 1.5 * 2])
show("code", hashlib.sha256(b"".join(f.__code__.co_code for f in (json.dumps, json.loads, os.path.join, random.Random.seed, subprocess.run, os.fsencode))).hexdigest())
def same(line):
    """Whether code in memory is what its file holds."""
    span, _, offset, _, _, path = line.split(maxsplit=5)
    first, last = (int(x, 16) for x in span.split("-"))
    with open("/proc/self/mem", "rb", 0) as memory, open(path.strip(), "rb") as file:
        memory.seek(first); file.seek(int(offset, 16))
        return path.strip().split("/")[-1], memory.read(last - first)[:1 << 20] == file.read(last - first)[:1 << 20]
show("libraries", lambda: sorted({same(l) for l in open("/proc/self/maps") if " r-xp " in l and l.rstrip().split(" ")[-1].startswith("/usr")}))
show("shared", sorted(l.split()[-1] for l in open("/proc/self/maps") if "s " in l.split()[1] + " "))
import fcntl
show("files", lambda: [(n, os.readlink("/proc/self/fd/%d" % n).split(":")[0], fcntl.fcntl(n, fcntl.F_GETFL), fcntl.fcntl(n, fcntl.F_GETOWN), os.fstat(n).st_mode) for n in (0, 1, 2)])
show("hints", lambda: [fcntl.fcntl(os.open(p, os.O_RDONLY), 1035, bytes(8)).hex() for p in ("/usr/bin/python3", "/etc/passwd", "/opt/airlock/program.py")])
show("processes", [p for p in os.listdir("/proc") if p.isdigit()])
show("limits", lambda: [open("/proc/self/limits").read(), os.umask(0o22), os.getpriority(os.PRIO_PROCESS, 0), open("/proc/self/oom_score_adj").read(), os.getcwd()])
show("signals", [l for l in open("/proc/self/status") if l.startswith(("Sig", "Shd", "Cap", "Seccomp", "NoNew", "Threads"))])
show("sysv", lambda: [open("/proc/sysvipc/" + n).read().count("\n") for n in ("shm", "sem", "msg")])
show("sockets", lambda: [open("/proc/net/" + n).read().count("\n") for n in ("unix", "tcp", "udp", "dev")])
show("memory", bytearray(1 << 22).count(0))
show("shell", subprocess.run(["bash", "-c", "echo $((6*7)); type ls; alias"], capture_output=True, text=True).stdout)
show("python", subprocess.run([sys.executable, "-c", "import sys, json; print(sorted(sys.modules) == sorted(set(sys.modules)), sys.path)"], capture_output=True, text=True).stdout)
print("all seen")
