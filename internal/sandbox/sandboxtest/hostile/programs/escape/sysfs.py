# Looks for sysfs, control groups, debugging file systems and firmware.
# kernel: shared
# only: machine
# control: host
import os
for path in ("/sys/kernel", "/sys/fs/cgroup", "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/cgroup.procs", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/firmware",
             "/sys/kernel/uevent_helper", "/sys/module", "/sys/class/net", "/sys/devices/system/cpu", "/sys/fs/bpf", "/cgroup", "/dev/mqueue", "/dev/hugepages", "/proc/sys/fs/binfmt_misc/register", "/boot", "/lib/modules/x"):
    refused(path, os.stat, path)
own = open("/proc/self/cgroup").read()
tried("own groups")
if any(line.rstrip().split(":", 2)[2] != "/" for line in own.splitlines()): breach("its place among the host's groups shows: " + own)
done()
