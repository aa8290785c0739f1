# Writes into every folder from which a program is loaded.
# next: must see the same
# own: wrote to /(etc|usr/local/)
import os, site, sys
folders = set(sys.path) | set(site.getsitepackages()) | {site.getusersitepackages(), "/usr/local/lib/python3/dist-packages", "/usr/lib/python3/dist-packages", "/opt/airlock/python", "/opt/airlock", "/usr/lib/node_modules", "/usr/local/bin", "/usr/bin", "/etc", "/lib"}
for folder in folders:
    if folder in ("", "/workspace", "/mnt/data"): continue
    for name in ("sitecustomize.py", "usercustomize.py", "evil.pth", "json.py", "__pycache__/json.cpython-311.pyc", "bash"):
        try:
            os.makedirs(os.path.dirname(folder + "/" + name), exist_ok=True)
            open(folder + "/" + name, "w").write("import os; os.environ['POISON'] = '1'")
        except OSError as e: tried("%s: %s" % (folder, e))
        else: tried(folder); folder.startswith(("/tmp", "/workspace", os.path.expanduser("~"))) or breach("wrote to " + folder)
done()
