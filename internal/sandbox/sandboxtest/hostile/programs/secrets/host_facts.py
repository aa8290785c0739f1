# Asks /proc about the host: how it was started, what runs on it, where things lie.
# weaken: hide /proc/cmdline, hide /proc/keys
for name in ("cmdline", "config.gz", "diskstats", "interrupts", "iomem", "ioports", "kallsyms", "kcore", "key-users", "keys", "kmsg", "kpagecount", "kpageflags", "locks", "modules", "partitions", "sched_debug", "schedstat", "slabinfo", "softirqs", "sysrq-trigger", "timer_list", "vmallocinfo"):
    try: text = open("/proc/" + name, "rb").read(100)
    except OSError as e: tried("%s: %s" % (name, e)); continue
    tried(name)
    if text: breach("%s says %r" % (name, text))
for name in ("mountinfo", "mounts", "mountstats"):
    text = open("/proc/self/" + name).read()
    tried(name)
    for line in text.splitlines():
        if "/opt/airlock/" in line and ("runtimes" in line or "/dev/" in line): breach("where the runtimes lie: " + line)
done()
