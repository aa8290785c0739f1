# Makes hard links, links in circles, and attributes of files without end.
import os
open("a", "w").write("x" * 100)
n = 0
try:
    while n < 30000: os.link("a", "/workspace/link%d" % n); n += 1
except OSError as e: tried("%d hard links: %s" % (n, e))
if n > 1001: breach("%d hard links" % n)
for i in range(n): os.remove("link%d" % i)
os.symlink("circle2", "circle1"); os.symlink("circle1", "circle2"); os.symlink("self", "self"); os.symlink(".", "here")
refused("a circle", open, "circle1")
refused("here" , open, "here/" * 900 + "a")
total = 0
try:
    for i in range(100000): os.setxattr("/tmp", "user.%d" % i, b"x" * 4000); total += 4000
except OSError as e: tried("attributes: %s" % e)
if total > 64 << 20: breach("%d MiB of attributes" % (total >> 20))
done()
