# Gives names to files that had none, keeps files open that have none any more, and maps both.
# kernel: shared
import mmap, os
fd = os.open("/workspace", os.O_TMPFILE | os.O_RDWR, 0o600)
os.write(fd, b"had no name")
try: os.link("/proc/self/fd/%d" % fd, "named", follow_symlinks=True); tried("name")
except OSError as e: tried("name: %s" % e); open("named", "w").write("had no name")
gone = open("gone", "w+b"); gone.write(b"x" * (1 << 20)); gone.flush(); os.remove("gone")
mmap.mmap(gone.fileno(), 1 << 20)[:5] = b"alive"
refused("a name for what is gone", lambda: os.link("/proc/self/fd/%d" % gone.fileno(), "back", follow_symlinks=True))
refused("a name for stdin", lambda: os.link("/proc/self/fd/0", "stdin", follow_symlinks=True))
refused("a name for stdout", lambda: os.link("/proc/self/fd/1", "stdout", follow_symlinks=True))
done()
