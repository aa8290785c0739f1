"""Runs each program of a txtar archive with this interpreter, in an empty
folder, and prints an archive of the answers: the standard output, the exit code
if it is not 0, and then the last line of the standard error."""
import os
import re
import subprocess
import sys
import tempfile

with open(sys.argv[1], encoding="utf-8") as file:
    parts = re.split(r"(?m)^-- (\S+) --\n", file.read())
environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MPLBACKEND": "Agg", "PYTHONIOENCODING": "utf-8"}
for name, code in zip(parts[1::2], parts[2::2]):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "main.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(code)
        run = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=folder, env=environment | {"HOME": folder}, timeout=300)
    print("--", name, "--")
    print(run.stdout, end="")
    if run.returncode:
        print("exit", run.returncode)
        print(run.stderr.strip().splitlines()[-1])
