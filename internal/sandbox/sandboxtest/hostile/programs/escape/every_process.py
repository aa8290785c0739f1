# Goes through the magic links of every process number there may be, to another root.
# only: machine
import os
own = set()
def mine(pid):
    try: return "Tgid:" in open("/proc/%d/status" % pid).read()
    except OSError: return False
count = 0
for pid in list(range(1, 400)) + [1000, 4242, 32767, 65535, int(H["PID"])]:
    for link in ("root", "cwd", "exe", "root/etc/shadow", "root/home", "root/var/lib", "cwd/../../../etc/shadow", "task/%d/root/root" % pid, "map_files", "fd", "ns/mnt", "environ", "mem", "stack", "syscall", "pagemap", "fdinfo"):
        if pid == os.getpid() and link in ("root", "cwd", "exe", "map_files", "fd", "ns/mnt", "environ", "mem", "pagemap", "fdinfo", "syscall", "stack"): continue
        path = "/proc/%d/%s" % (pid, link)
        count += 1
        try:
            if link in ("fd", "map_files", "fdinfo", "root", "cwd", "root/home", "root/var/lib"): got = os.listdir(path)
            elif link in ("ns/mnt", "exe"): got = os.readlink(path)
            else: got = open(path, "rb").read(1)
        except OSError: continue
        if link == "root/home" and got == ["user"] and os.path.samefile("/home/user", "."): continue  # a cell's
        if got: breach("%s: %.80r" % (path, got))
tried("%d links" % count)
done()
