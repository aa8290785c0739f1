# Changes its interpreter as far as it goes: functions, small numbers, the code in memory.
# next: must see the same
# ends: anyhow
import builtins, ctypes, gc, json, os, random, signal, sys
tried("change")
json.dumps = json.loads = lambda *a: "poison"
random.seed(1); sys.setrecursionlimit(77); sys.path.insert(0, "/tmp"); os.environ["POISON"] = "1"
os.register_at_fork(before=lambda: print("poison"), after_in_child=lambda: print("poison"))
gc.callbacks.append(lambda *a: None); sys.meta_path.clear(); sys.modules["numpy"] = json
sys.excepthook = sys.displayhook = builtins.print = lambda *a, **k: None
signal.setitimer(signal.ITIMER_REAL, 1000); os.nice(5); os.umask(0)
with open("/proc/self/mem", "r+b", 0) as memory:
    for line in open("/proc/self/maps"):
        if " r-xp " in line and ("libc.so" in line or "python" in line.split("/")[-1]):
            first = int(line.split("-")[0], 16)
            try: memory.seek(first); old = memory.read(16); memory.seek(first + 64); memory.write(b"\xcc" * 16)
            except OSError as e: tried("memory: %s" % e)
            else: tried("wrote to " + line.split()[-1])
ctypes.memset(id(200) + 24, 0x41, 1)  # one of the numbers that all share
ctypes.c_long.from_address(id(None)).value = 1
done()
os._exit(0)
