# Uses a device in a way that only landlock forbids.
# weaken: landlock
import fcntl
for name in ("/dev/urandom", "/dev/random"):
    refused("entropy of " + name, fcntl.ioctl, open(name), 0x80045200, bytes(4))
done()
