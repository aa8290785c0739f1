# Closes its outputs, as if it were done, and goes on.
# ends: timeout
# timeout: 500ms
import os, time
tried("close")
os.closerange(0, 1024)
time.sleep(300)
