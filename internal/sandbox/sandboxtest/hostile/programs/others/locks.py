# Locks files of the system exclusively, as those do who must be alone.
# only: machine
import fcntl, glob, os
for path in ["/usr/bin/python3", "/etc/passwd", "/usr/lib/os-release", "/etc/ld.so.cache"] + [path for path in glob.glob("/opt/airlock/*") if os.access(path, os.R_OK)][:4]:
    fd = os.open(path, os.O_RDONLY)
    refused("write lock on " + path, fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    tried("shared lock on " + path)
done()
