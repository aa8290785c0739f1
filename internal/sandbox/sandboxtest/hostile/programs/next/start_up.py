# Puts code where the next interpreter would start it: site hooks, paths, configuration, the zygote's own files.
# next: must see the same
# own: \S+ could be written in /(etc|etc/python3|usr/local/.*)?$
import os, site, sys, sysconfig
folders = set(sys.path) | set(site.getsitepackages()) | {site.getusersitepackages(), "/opt/airlock", "/opt/airlock/python", "/opt/airlock/matplotlib", "/usr/lib/python3", sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"], "/etc", "/etc/python3", "/"}
for folder in sorted(f for f in folders if f and not f.startswith(("/workspace", "/tmp"))):
    for name in ("usercustomize.py", "sitecustomize.py", "evil.pth", "zygote.py", "program.py", "pyvenv.cfg", "python._pth", "__pycache__/os.pyc"):
        try:
            os.makedirs(folder, exist_ok=True)
            open(os.path.join(folder, name), "w").write("import os; os.write(1, b'poison')\n")
        except OSError as e: tried("%s in %s: %s" % (name, folder, e))
        else:
            tried("%s in %s" % (name, folder))
            if not os.path.realpath(folder).startswith(("/workspace", "/tmp")): breach("%s could be written in %s" % (name, folder))
for variable in ("PYTHONSTARTUP", "PYTHONPATH", "LD_PRELOAD", "BASH_ENV", "NODE_OPTIONS"): os.environ[variable] = "/workspace/evil"
done()
