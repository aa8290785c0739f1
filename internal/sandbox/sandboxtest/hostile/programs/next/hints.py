# Leaves a message on read-only files of everybody's, in what the kernel remembers of them.
# kernel: shared
# next: must see the same
# own: (attribute|flags|project|times) of /etc/
import fcntl, glob, os, struct
paths = ["/usr/bin/python3", "/usr/bin/bash", "/etc/passwd", "/etc/ld.so.cache", "/opt/airlock/python", "/usr"] + glob.glob("/opt/airlock/*") + glob.glob("/opt/airlock/python/*/*.py")[:40]
for path in paths:
    try: fd = os.open(path, os.O_RDONLY)
    except OSError: continue
    before = fcntl.fcntl(fd, 1035, bytes(8))
    for name, command in (("file", 1036), ("open file", 1038)):
        for hint in range(6):
            refused("hint %d of the %s %s" % (hint, name, path), fcntl.fcntl, fd, command, struct.pack("Q", hint))
    tried("read it back")
    if fcntl.fcntl(fd, 1035, bytes(8)) != before: breach("%s says something else" % path)
    for name, attempt in (("delegation", lambda: fcntl.fcntl(fd, 1040, bytes(8))), ("lease", lambda: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)), ("seal", lambda: fcntl.fcntl(fd, 1033, 1)),
                          ("attribute", lambda: os.setxattr(fd, "user.x", b"x")), ("flags", lambda: fcntl.ioctl(fd, 0x40086602, struct.pack("l", 0x80))), ("project", lambda: fcntl.ioctl(fd, 0x401c5820, bytes(28))),
                          ("version", lambda: fcntl.ioctl(fd, 0x40087602, bytes(8))), ("times", lambda: os.utime(fd)), ("verity", lambda: fcntl.ioctl(fd, 0x40806685, bytes(128)))):
        refused("%s of %s" % (name, path), attempt)
    accessed = os.fstat(fd).st_atime_ns
    os.read(fd, 1) if not os.path.isdir(path) else os.listdir(fd)
    tried("when it was read")
    if os.fstat(fd).st_atime_ns != accessed: breach("%s says when it was read" % path)
    os.close(fd)
done()
