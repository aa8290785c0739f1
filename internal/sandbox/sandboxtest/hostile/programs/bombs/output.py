# Writes without end to both outputs, faster than anybody reads.
# ends: timeout
# timeout: 500ms
import os, threading
tried("write")
if os.fork() == 0:
    while True: os.write(2, b"y" * 65536)
while True: os.write(1, b"x" * 65536)
