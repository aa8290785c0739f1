# Leaves links to everything that it is not given.
import os
for i, target in enumerate((H["FILE"], "/etc/passwd", "/etc/shadow", "/proc/self/environ", "/proc/1/environ", "/", "/usr", "..", "../../../../etc/passwd", "/dev/zero", "/dev/random", "/workspace/given.txt", "given.txt", "/proc/self/fd/1", "/nowhere")):
    os.symlink(target, "link%d" % i)
    tried(target)
os.mkdir("folder"); os.symlink("/etc", "folder/etc"); os.symlink("/", "folder/root")
os.rename("given.txt", "old"); os.symlink(H["FILE"], "given.txt")
os.remove("main.py"); os.symlink("/etc/passwd", "main.py")
done()
