# Executes what the kernel would start a helper of the host for.
# kernel: shared
import ctypes, os, subprocess
for magic in (b"\x01\x02\x03\x04", b"MZ\0\0", b"\x7fELF\x02\x02", b"#!/proc/1/exe\n", b"#!/usr/bin/none\n", b"\xca\xfe\xba\xbe"):
    for folder in ("/tmp", "/workspace", "/dev/shm"):
        path = folder + "/odd"
        with open(path, "wb") as f: f.write(magic + b"\0" * 200)
        os.chmod(path, 0o755)
        refused("execute %r" % magic, lambda: subprocess.run([path], check=False))
refused("register a format", open, "/proc/sys/fs/binfmt_misc/register", "wb")
refused("helper for modules", open, "/proc/sys/kernel/modprobe", "wb")
done()
