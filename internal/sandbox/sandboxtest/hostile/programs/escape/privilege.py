# Becomes somebody else: by numbers, capabilities, and programs that belong to root.
# kernel: shared
# weaken: set user, set group, drop capabilities, drop from the bounding set, no new privileges, landlock
import ctypes, os, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    if getattr(libc, name)(*args) != 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
for user in (0, 1, int(H["UID"]), 65534, os.getuid() + 1, os.getuid() - 1):
    if user == os.getuid(): continue
    refused("setuid %d" % user, call, "setuid", user)
    refused("setresuid %d" % user, call, "setresuid", user, user, user)
    refused("setgid %d" % user, call, "setgid", user)
    libc.setfsuid(user); libc.setfsgid(user)
    if libc.setfsuid(-1) == user: breach("setfsuid %d" % user)
refused("setgroups", os.setgroups, [0, 27])
for number in range(41):
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    for word in range(3): data[3 * (number // 32) + word] = 1 << number % 32
    refused("capability %d" % number, call, "capset", header, data)
    refused("ambient %d" % number, call, "prctl", 47, 2, number, 0, 0)
refused("securebits", call, "prctl", 28, 1, 0, 0, 0)
own = "/tmp/own"
open(own, "wb").write(open("/usr/bin/id", "rb").read())
os.chmod(own, 0o6755)
out = subprocess.run([own, "-u"], capture_output=True, text=True).stdout.strip()
tried("its own setuid program: " + out)
if out == "0" : breach("it became root by its own file")
refused("file capabilities", os.setxattr, own, "security.capability", b"\1\0\0\2" + b"\xff" * 16)
for folder in ("/usr/bin", "/usr/sbin", "/usr/lib"):
    for name in os.listdir(folder):
        path = folder + "/" + name
        if os.path.isfile(path) and os.lstat(path).st_mode & 0o6000: tried("setuid program " + name)
for command in (["su", "-c", "id -u"], ["sudo", "-n", "id", "-u"], ["mount", "-t", "tmpfs", "x", "/tmp"], ["newuidmap", "1", "0", "0", "1"], ["unshare", "-Ur", "id", "-u"], ["passwd", "-d", "root"], ["pkexec", "id", "-u"], ["chsh", "-s", "/bin/sh"]):
    try: r = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=10)
    except OSError as e: tried("%s: %s" % (command[0], e)); continue
    tried("%s: %s" % (command[0], r.stderr[:60]))
    if r.returncode == 0: breach("%s worked: %s" % (command, r.stdout))
status = dict(l.rstrip("\n").split(":\t", 1) for l in open("/proc/self/status") if ":\t" in l)
tried("status")
if any(int(status[n], 16) for n in ("CapEff", "CapPrm", "CapBnd", "CapAmb", "CapInh")) or status["NoNewPrivs"] != "1" or status["Seccomp"] != "2": breach("%s" % status)
done()
