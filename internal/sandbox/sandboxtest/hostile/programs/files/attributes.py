# Leaves files with rights, owners, times and flags that are in the way.
import fcntl, os, struct
for mode in (0o0, 0o4755, 0o6777, 0o1777):
    open("mode%o" % mode, "w").write("x"); os.chmod("mode%o" % mode, mode); tried("%o" % mode)
open("old", "w").write("x"); os.utime("old", (-1, -1)); os.utime("old", (1 << 40, 1 << 40))
for flag in (0x10, 0x20):
    fd = os.open("old", os.O_RDONLY)
    refused("flag %#x" % flag, fcntl.ioctl, fd, 0x40086602, struct.pack("l", flag))
refused("owner", os.chown, "old", 0, 0)
for name in ("security.selinux", "trusted.x", "system.posix_acl_access", "security.ima"):
    try: os.setxattr("old", name, b"x" * 20)
    except OSError as e: tried("%s: %s" % (name, e))
done()
