# Overwrites the program that it runs as, by every name: pid 1's is the host's own binary.
import os
for path in ("/proc/self/exe", "/proc/1/exe", "/proc/thread-self/exe", "/proc/%d/exe" % os.getppid(), os.path.realpath("/proc/self/exe"), "/proc/self/map_files", "/lib64/ld-linux-x86-64.so.2"):
    for flags, name in ((os.O_WRONLY, "write"), (os.O_RDWR | os.O_TRUNC, "truncate"), (os.O_WRONLY | os.O_APPEND, "append")):
        refused("%s %s" % (name, path), os.open, path, flags)
    refused("chmod " + path, os.chmod, path, 0o777)
    refused("remove " + path, os.unlink, path)
held = os.open("/proc/self/exe", os.O_PATH)
refused("by what is held", os.open, "/proc/self/fd/%d" % held, os.O_RDWR)
refused("a hard link of what is held", lambda: os.link("/proc/self/fd/%d" % held, "linked", follow_symlinks=True))
# A child waits until nobody runs it any more, as one did to a container's runtime.
if os.fork() == 0:
    for i in range(200):
        try: os.write(os.open("/proc/self/fd/%d" % held, os.O_WRONLY | os.O_TRUNC), b"#!/bin/sh\n"); breach("the interpreter was overwritten")
        except OSError: pass
    os._exit(0)
os.wait()
done()
