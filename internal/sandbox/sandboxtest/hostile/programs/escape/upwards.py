# Goes up and up, to a root above the root.
# kernel: shared
# only: machine
# weaken: detach the old root, landlock
import os
ours = {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "mnt", "opt", "proc", "run", "sbin", "tmp", "usr", "var", "volumes", "workspace"}
if os.path.exists("/home") and os.listdir("/home") == ["user"] and os.path.samefile("/home/user", "."): ours.add("home")  # a cell's
fd = os.open("/", os.O_PATH)
for name, path in (("/..", "/" + "../" * 40), ("root", "/proc/self/root/" + "../" * 40), ("cwd", "/proc/self/cwd/" + "../" * 40), ("fd", "/proc/self/fd/%d/../../.." % fd),
                   ("thread", "/proc/thread-self/root/../.."), ("task", "/proc/self/task/%d/root/../.." % os.getpid())):
    found = set(os.listdir(path))
    tried(name)
    if found - ours: breach("%s holds %s" % (path, found - ours))
for name in ("image", "held", "cgroup", "host", "rootfs", "oldroot", ".oldroot"):
    refused(name, os.stat, "/../" + name)
for path in (H["FILE"], "/.." + H["FILE"], "/proc/self/root" + H["FILE"], "/proc/self/cwd/../.." + H["FILE"]):
    refused(path, os.open, path, os.O_RDONLY)
done()
