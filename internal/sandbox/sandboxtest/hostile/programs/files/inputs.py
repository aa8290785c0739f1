# Changes, replaces and removes what it was given.
import os
open("given.txt", "a").write("more")
os.rename("given.txt", "elsewhere")
os.mkdir("given.txt")
open("given.txt/inside", "w").write("x")
os.truncate("elsewhere", 1 << 20)
tried("inputs")
done()
