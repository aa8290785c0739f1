# Opens what pid 1 has: it is the same user's.
# kernel: shared
# weaken: forbid inspection, set user, set group, drop capabilities, drop from the bounding set, no new privileges, system-call filter, landlock
import os
for name in ("root", "cwd", "exe", "fd", "mem", "maps", "smaps", "environ", "cmdline", "status", "stat", "stack", "syscall", "auxv", "io", "map_files", "ns/mnt", "ns/pid", "ns/net", "task/1/root", "fdinfo", "pagemap", "timers", "mountinfo", "cgroup", "wchan", "limits"):
    path = "/proc/1/" + name
    def attempt():
        if name in ("root", "cwd", "exe") or name.startswith("ns"): return os.readlink(path)
        if os.path.isdir(path): return os.listdir(path)
        return open(path, "rb").read(10)
    refused(name, attempt)
for path in ("/proc/1/root/etc", "/proc/1/root/../..", "/proc/1/cwd", "/proc/1/task/1/cwd"): refused(path, os.listdir, path)
known = {os.getpid()}
if os.path.isdir("/proc/1") and not os.listdir("/proc/1"): known.add(1)  # covered, as in a live session
others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in known]
tried("other processes")
if others: breach("processes are in sight: %s" % others)
for pid in range(1, 400):
    if pid not in known and os.path.exists("/proc/%d" % pid): breach("pid %d is in sight" % pid)
done()
