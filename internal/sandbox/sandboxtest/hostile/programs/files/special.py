# Leaves what is no file: pipes, sockets, folders without rights.
import os, socket
for i in range(20): os.mkfifo("pipe%d" % i); tried("pipe")
for i in range(20): socket.socket(socket.AF_UNIX).bind("socket%d" % i); tried("socket")
os.makedirs("closed/in"); open("closed/in/file", "w").write("x"); os.chmod("closed/in", 0); os.chmod("closed", 0)
open("unreadable", "w").write("kept all the same"); os.chmod("unreadable", 0)
os.remove("given.txt"); os.mkfifo("given.txt")
os.chmod("/workspace", 0)
done()
