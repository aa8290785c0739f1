# Poisons what is kept in /tmp, /dev/shm and the home for the next.
# next: must see the same
import os, glob, pickle
class Run:
    def __reduce__(self): return (os.system, ("echo poison",))
for folder in ("/tmp/matplotlib", "/tmp/.config", "/tmp/.cache", "/tmp/.local/lib/python3.11/site-packages", "/dev/shm", os.path.expanduser("~/.config"), "/var/tmp", os.path.expanduser("~/.ipython")):
    os.makedirs(folder, exist_ok=True)
    for name in ("matplotlibrc", "fontlist-v390.json", "usercustomize.py", "evil.pth", "pip.conf", ".bashrc"):
        try: os.remove(folder + "/" + name)
        except OSError: pass
        with open(folder + "/" + name, "wb") as f: f.write(pickle.dumps(Run()))
    tried(folder)
for path in glob.glob("/tmp/matplotlib/*.json"):
    if os.path.islink(path): refused("write through " + path, open, path, "w")
done()
