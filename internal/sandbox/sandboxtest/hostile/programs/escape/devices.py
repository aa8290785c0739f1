# Makes device nodes and opens what there is in /dev.
# kernel: shared
import os, stat
for name, kind, major, minor in (("mem", stat.S_IFCHR, 1, 1), ("kmsg", stat.S_IFCHR, 1, 11), ("sda", stat.S_IFBLK, 8, 0), ("vda", stat.S_IFBLK, 254, 0),
                                 ("loop", stat.S_IFBLK, 7, 0), ("tun", stat.S_IFCHR, 10, 200), ("kvm", stat.S_IFCHR, 10, 232), ("tty", stat.S_IFCHR, 5, 0), ("null", stat.S_IFCHR, 1, 3)):
    for folder in ("/workspace/", "/tmp/", "/dev/shm/"):
        refused("mknod " + name, os.mknod, folder + name, kind | 0o666, os.makedev(major, minor))
        refused("open " + name, os.open, folder + name, os.O_RDWR)
allowed = {"null", "zero", "full", "random", "urandom", "shm", "fd", "stdin", "stdout", "stderr", "pts", "tty"}
found = set(os.listdir("/dev"))
tried("list /dev")
if found - allowed: breach("devices: %s" % (found - allowed))
if os.listdir("/dev/pts"): breach("terminals: %s" % os.listdir("/dev/pts"))
refused("open /dev/tty without a terminal", os.open, "/dev/tty", os.O_RDWR)
for name in ("mem", "kmem", "port", "kmsg", "kvm", "fuse", "net/tun", "vda", "sda", "loop-control", "ptmx", "hpet", "cpu/0/msr", "dri/card0", "vsock", "vhost-vsock", "uinput", "userfaultfd", "autofs", "btrfs-control"):
    refused("open /dev/" + name, os.open, "/dev/" + name, os.O_RDONLY)
for name in allowed - {"shm", "fd", "pts"}:
    if not os.path.islink("/dev/" + name): refused("chmod " + name, os.chmod, "/dev/" + name, 0o777)
    refused("unlink " + name, os.unlink, "/dev/" + name)
done()
