# Reads whatever it can find outside of /usr, and asks for the secret by its name.
# control: host
import os
read = 0
for top in ("/etc", "/dev", "/var", "/run", "/mnt", "/tmp", "/workspace", "/home", "/root", "/opt/airlock/matplotlib", "/srv", "/media", "/data", "/app") if os.path.exists("/workspace") else ():
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if not os.path.isfile(path): continue
                text = open(path, "rb").read(1 << 20)
            except OSError: continue
            read += 1
            if CANARY.encode() in text: breach("%s holds the secret" % path)
tried("%d files" % read)
for path in (H["FILE"], H["SHM"], "/proc/self/root" + H["FILE"], "/proc/1/root" + H["FILE"], "/proc/%s/root%s" % (H["PID"], H["FILE"]), "/proc/%s/environ" % H["PID"]):
    refused(path, open, path)
done()
