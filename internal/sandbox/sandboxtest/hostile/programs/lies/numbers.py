# Ends with numbers that are no exit codes.
# ends: badly
import os
tried("end")
os._exit(256 + 7)
