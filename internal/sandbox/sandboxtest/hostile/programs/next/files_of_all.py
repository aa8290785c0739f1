# Replaces, removes and renames programs and libraries of the system.
# next: must see the same
# own: .*/etc/
import glob, os
for path in ["/usr/bin/python3", os.path.realpath("/usr/bin/python3"), "/usr/bin/bash", "/usr/bin/env", "/etc/ld.so.cache", "/etc/passwd", "/etc/hosts", "/etc/nsswitch.conf", "/opt/airlock/zygote.py", "/opt/airlock/program.py"] + glob.glob("/lib/*-linux-gnu/libc.so.6") + glob.glob("/opt/airlock/*"):
    for what, attempt in (("write", lambda: open(path, "r+b")), ("remove", lambda: os.remove(path)), ("rename", lambda: os.rename(path, path + "~")), ("link", lambda: os.symlink("/tmp/x", path + "+")),
                          ("mode", lambda: os.chmod(path, 0o777)), ("times", lambda: os.utime(path)), ("cut", lambda: os.truncate(path, 0)), ("attribute", lambda: os.setxattr(path, "user.x", b"x"))):
        refused("%s %s" % (what, path), attempt)
for name in ("ld.so.preload", "profile", "bash.bashrc", "environment", "inputrc", "resolv.conf", "localtime~"): refused("/etc/" + name, open, "/etc/" + name, "w")
done()
