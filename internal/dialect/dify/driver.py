import os
import sys


def prepare():
    text = sys.stdin.read()

    def report(kind, error, frames):  # without the frame of this file
        import linecache
        import traceback

        linecache.cache["main.py"] = len(text), None, text.splitlines(True), "main.py"
        traceback.print_exception(kind, error, frames and frames.tb_next)

    sys.excepthook = report
    return text, "main.py", "exec"


exec(compile(*globals().pop("prepare")()))
