# Links files of the system into its workspace, and gives open ones a name.
import os
targets = ["/etc/passwd", "/usr/bin/su", "/usr/bin/python3", "/dev/null", "/proc/self/mem", "/proc/self/status", "/proc/1/status", "/opt/airlock/python"]
for i, target in enumerate(targets):
    refused("link " + target, os.link, target, "/workspace/link%d" % i)
    refused("rename " + target, os.rename, target, "/workspace/moved%d" % i)
for fd in (0, 1, 2):
    refused("name for file %d" % fd, lambda: os.link("/proc/self/fd/%d" % fd, "/workspace/fd%d" % fd, follow_symlinks=True))
done()
