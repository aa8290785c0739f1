"""The zygote: a Python process with packages imported, which forks sandboxes.

The executor starts one for each tier of packages and speaks to it over a
socket (file 3). What it does is in server.py; this only loads that and what it
needs, and is short because what compiling it leaves in memory stays there.
"""

import sys

OWN = frozenset(sys.modules)  # what the interpreter itself imports

import marshal
import os
import types


def in_child(make):
    """Returns what a child makes of something. What it imports for that and leaves
    in memory, everybody forked from here would have, too."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with open(theirs, "wb") as file:
                marshal.dump(make(), file)
        except BaseException:
            sys.__excepthook__(*sys.exc_info())
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as file:
        made = file.read()
    os.waitpid(pid, 0)
    return marshal.loads(made)


def load(name):
    """Loads an internal module, which no program can import."""
    module = types.ModuleType(name)
    module.__file__ = beside(name + ".py")

    def code():
        with open(module.__file__, "rb") as file:
            return compile(file.read(), module.__file__, "exec")

    exec(in_child(code), module.__dict__)
    return module


def beside(name):
    return os.path.join(os.path.dirname(__file__), name)


server = load("server")
server.buffer, server.warmup, server.program = load("buffer"), load("warmup"), load("program")
server.program.OWN, server.in_child, server.load = OWN, in_child, load
server.program.reopen_streams()
try:
    server.store() if sys.argv[1:] == ["store"] else server.begin()
except (BrokenPipeError, ConnectionResetError):
    os._exit(0)  # the executor is gone
