# Takes a lock on every second byte of a file.
# ends: anyhow
# memory: 128
# timeout: 2s
import fcntl
f = open("/tmp/locked", "w")
tried("lock")
for i in range(1 << 22): fcntl.lockf(f, fcntl.LOCK_EX, 1, 2 * i)
