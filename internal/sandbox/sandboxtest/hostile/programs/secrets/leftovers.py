# Looks for what the program before it left where programs leave things.
# kernel: shared
import glob, os, subprocess
for folder in ("/tmp", "/dev/shm", "/var/tmp", "/workspace", "/mnt/data", "/run", "/var"):
    for path in glob.glob(folder + "/**", recursive=True) + glob.glob(folder + "/.*"):
        if os.path.isfile(path) and CANARY.encode() in open(path, "rb").read(): breach("%s holds the secret" % path)
    tried(folder)
    if os.path.exists(folder + "/left"): breach("%s/left is there" % folder)
for name in ("shm", "sem", "msg"):
    lines = open("/proc/sysvipc/" + name).read().splitlines()
    tried("System V " + name)
    if len(lines) != 1: breach("System V %s: %s" % (name, lines))
lines = sockets_of_others()
tried("unix sockets")
if lines: breach("unix sockets: %s" % lines)
done()
