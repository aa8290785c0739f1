# Looks for the secret in every environment that it can see.
# control: host
import ctypes, glob, os
seen = [os.environb.items(), open("/proc/self/environ", "rb").read(), open("/proc/self/cmdline", "rb").read()]
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try: seen.append(open(path, "rb").read())
    except OSError: pass
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
i = 0
while environ and environ[i]: seen.append(environ[i]); i += 1
tried("%d environments" % len(seen))
if CANARY in str(seen): breach("the environment holds the secret")
for name in os.environ:
    if "SECRET" in name or name.startswith(("AIRLOCK_KEY", "AWS_", "KUBERNETES_", "GITHUB_")): breach("the environment has " + name)
done()
