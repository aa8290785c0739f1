# Opens the kernel's settings for writing.
# kernel: shared
# weaken: make /proc read-only, set user, set group, landlock
import os
count = 0
for folder, _, names in os.walk("/proc/sys"):
    for name in names:
        count += 1
        try: fd = os.open(folder + "/" + name, os.O_WRONLY)
        except OSError: continue
        os.close(fd)
        breach("%s/%s opens for writing" % (folder, name))
tried("%d settings" % count)
if count < 100: breach("only %d settings were found: nothing was tried" % count)
for name in ("sysrq-trigger", "acpi", "irq/default_smp_affinity", "irq/0/smp_affinity", "mtrr", "scsi/scsi", "timer_list", "self/uid_map", "self/gid_map", "self/setgroups", "self/projid_map",
             "self/attr/current", "self/attr/exec", "1/oom_score_adj", "1/mem", "1/clear_refs", "1/uid_map", "bus/pci/devices", "kmsg", "fs/nfsd", "driver/snd-page-alloc", "asound/card0/oss_mixer", "self/map_files"):
    try: fd = os.open("/proc/" + name, os.O_WRONLY)
    except OSError as e: tried("%s: %s" % (name, e)); continue
    if os.fstat(fd).st_rdev == os.stat("/dev/null").st_rdev: tried(name + " is hidden"); continue
    try: os.write(fd, b"0 0 1\n")
    except OSError as e: tried("%s: %s" % (name, e))
    else: tried(name); breach("wrote to /proc/" + name)
done()
