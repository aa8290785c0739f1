# Gives programs of its own a user, a group and capabilities, and executes them.
import os, shutil, struct, subprocess
me = os.getuid()
for folder in ("/workspace", "/tmp", "/dev/shm"):
    path = folder + "/become"
    shutil.copy("/usr/bin/id", path)
    for mode in (0o4755, 0o2755, 0o6755):
        try: os.chmod(path, mode)
        except OSError: pass
        try: out = subprocess.run([path, "-u"], capture_output=True, text=True).stdout.strip()
        except OSError as e: out = ""; tried("%s %o: %s" % (path, mode, e))
        else: tried("%s %o: %s" % (path, mode, out))
        if out and out != str(me): breach("%s ran as %s" % (path, out))
    for owner in ((0, 0), (me, 0), (me + 1, -1)):
        refused("give it to %s" % (owner,), os.chown, path, *owner)
    for name, value in (("security.capability", struct.pack("<5I", 0x02000001, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff)), ("trusted.x", b"x"), ("trusted.overlay.opaque", b"y")):
        refused("%s of %s" % (name, path), os.setxattr, path, name, value)
    os.remove(path)
done()
