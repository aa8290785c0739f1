# Walks out of a chroot with a folder that it kept open.
import ctypes, os
outside = os.open("/", os.O_RDONLY)
os.makedirs("/tmp/jail")
refused("chroot", os.chroot, "/tmp/jail")
os.fchdir(outside)
for i in range(64): os.chdir("..")
refused("chroot .", os.chroot, ".")
done()
