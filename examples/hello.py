"""Says hello and leaves a file."""
import platform
from pathlib import Path

print(f"Hello from Python {platform.python_version()} in {Path.cwd()}")
Path("hello.txt").write_text("Made in a sandbox.\n")
