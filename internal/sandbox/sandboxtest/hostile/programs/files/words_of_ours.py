# Leaves files whose names mean something to somebody: to us, to tools, to shells, to browsers.
import os
for name in ("main.py", ".airlock", ".airlockignore", "stdout", "stderr", "result.json", "manifest.json", "index.db", "..data", ".git/config", ".git/hooks/post-checkout", ".bashrc", ".pth", "site.pth", "sitecustomize.py",
             "-", "--help", "file://etc", "http:", "data:text", "CON", "NUL.txt", "desktop.ini", ".DS_Store", "id_rsa", ".ssh/authorized_keys", "a.html", "a.svg", "a.desktop", "con.", "a ", "%s%n%x", "{{7*7}}", "${IFS}", "'; drop table files; --"):
    folder = os.path.dirname(name)
    if folder: os.makedirs(folder, exist_ok=True)
    open(name, "w").write("x")
    tried(name)
done()
