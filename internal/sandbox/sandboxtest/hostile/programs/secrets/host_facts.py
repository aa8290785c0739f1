# Asks /proc about the host: how it was started, what runs on it, where things lie.
# kernel: shared
# weaken: hide /proc/cmdline, hide /proc/keys, hide /proc/cgroups, hide /proc/fs, hide /proc/pressure, hide /proc/sys/fs
import os
for name in ("cmdline", "config.gz", "diskstats", "interrupts", "iomem", "ioports", "kallsyms", "kcore", "key-users", "keys", "kmsg", "kpagecount", "kpageflags", "locks", "modules", "partitions", "sched_debug", "schedstat", "slabinfo", "softirqs", "sysrq-trigger", "timer_list", "vmallocinfo"):
    try: text = open("/proc/" + name, "rb").read(100)
    except OSError as e: tried("%s: %s" % (name, e)); continue
    tried(name)
    if text: breach("%s says %r" % (name, text))
for name in ("cgroups", "pressure/cpu", "pressure/io", "pressure/memory", "sys/fs/file-nr", "sys/fs/inode-nr", "sys/fs/dentry-state", "sys/fs/nr_open"):
    try: text = open("/proc/" + name, "rb").read(100)
    except OSError as e: tried("%s: %s" % (name, e)); continue
    tried(name)
    if text: breach("%s says %r" % (name, text))
for folder in ("fs", "pressure", "sys/fs"):
    there = [os.path.join(at, name) for at, _, names in os.walk("/proc/" + folder) for name in names]
    tried(folder)
    if there: breach("%s holds %s" % (folder, there[:5]))
for name in ("mountinfo", "mounts", "mountstats"):
    text = open("/proc/self/" + name).read()
    tried(name)
    for line in text.splitlines():
        if "/opt/airlock/" in line and ("runtimes" in line or "/dev/" in line): breach("where the runtimes lie: " + line)
done()
