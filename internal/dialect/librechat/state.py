"""Runs a Python program with the variables that the last one of its session
left, and keeps those that it leaves itself. They come behind the request, and
leave in a file, which lies in the workspace only after the program has ended.
They are read nowhere but in the sandbox."""

import importlib
import linecache
import os
import pickle
import re
import sys

STATE = ".airlock/python.state"
LARGEST_STATE = 32 << 20

try:
    import cloudpickle as pickler  # also takes functions and classes of the program
except ImportError:
    pickler = None


def dumps(value):
    if pickler:
        return pickler.dumps(value)
    text = pickle.dumps(value)
    if b"__main__" in text:
        raise pickle.PicklingError("it is defined in the program")
    return text


def say(text):
    sys.stderr.write("[sandbox] %s\n" % text)


def restore(main, text, imports, missing):
    """Gives a program what the last one left, and adds the names of submodules that
    are to be imported, and the types of what was not kept."""
    if not text:
        return
    try:
        state = pickle.loads(text)
    except Exception as error:
        say("The variables of the program before are lost: %s" % error)
        return
    missing.update(state.get("missing", ()))
    lost = []
    for name, module in state["modules"].items():
        try:
            main[name] = importlib.import_module(module)
        except Exception:
            lost.append(name)
    imports.update(state.get("imports", ()))
    for module in imports:
        try:
            importlib.import_module(module)
        except Exception:
            lost.append(module)
    try:
        main.update(pickle.loads(state["values"]))
    except Exception as error:
        say("The variables of the program before are lost: %s" % error)
    if lost:
        say("These modules are not there any more: %s" % ", ".join(lost))


def submodules(source):
    """Returns what a program imports in the form `import a.b`, which leaves only
    the name a."""
    if not re.search(rb"\bimport\b.*\w\.", source):
        return set()
    import ast

    try:
        nodes = ast.walk(ast.parse(source))
        names = [n for node in nodes if isinstance(node, ast.Import) for n in node.names]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {n.name for n in names if "." in n.name and not n.asname}


def spent(value):
    """Reports whether nothing can be done with a value any more: a file that is
    closed, a generator at its end, a thread that has ended."""
    try:
        if "threading" in sys.modules and isinstance(value, sys.modules["threading"].Thread):
            return not value.is_alive()
        if "subprocess" in sys.modules and isinstance(value, sys.modules["subprocess"].Popen):
            return value.returncode is not None
        frames = [getattr(value, name, value) for name in ("gi_frame", "cr_frame", "ag_frame")]
        return None in frames or getattr(value, "closed", None) is True
    except Exception:
        return False


def save(main, imports, missing):
    modules, values = {}, {}
    for name in missing.keys() & main.keys():
        del missing[name]
    for name, value in list(main.items()):
        if name.startswith("__") and name.endswith("__"):
            continue
        if isinstance(value, types.ModuleType):
            modules[name] = value.__name__
        else:
            values[name] = value
    imports = {name for name in imports if name in sys.modules and modules.get(name.partition(".")[0]) == name.partition(".")[0]}
    try:
        text = dumps(values)
    except Exception:
        for name in list(values):
            try:
                dumps(values[name])
            except Exception:
                value = values.pop(name)
                if not spent(value):
                    missing[name] = "%s.%s" % (type(value).__module__, type(value).__qualname__)
        try:
            text = dumps(values)
        except Exception as error:
            say("The variables are not kept: %s" % error)
            return
    if len(text) > LARGEST_STATE:
        say("The variables are not kept: they take %d MiB, at most %d are kept" % (len(text) >> 20, LARGEST_STATE >> 20))
        return
    try:
        os.makedirs(os.path.dirname(STATE), exist_ok=True)
        with open(STATE + ".new", "wb") as file:
            pickle.dump({"modules": modules, "imports": imports, "values": text, "missing": missing}, file)
        os.replace(STATE + ".new", STATE)
    except OSError as error:
        say("The variables are not kept: %s" % error)
        return


def drive(main):
    request, text = read_request()
    source = request["source"].encode("utf-8", "surrogatepass")
    imports, missing = set(), {}
    path = main["__file__"]
    put_source(path, request["source"])
    linecache.checkcache(path)
    home = os.getcwd()
    restore(main, text, imports, missing)
    imports |= submodules(source)
    try:
        exec(compile(source, path, "exec", dont_inherit=True), main)
    except SystemExit:
        raise
    except BaseException as error:
        own_frames(error, path, set())
        sys.excepthook(type(error), error, error.__traceback__)
        kind = missing.get(getattr(error, "name", None)) if isinstance(error, NameError) else None
        if kind:
            say("%s of an earlier program was not kept: a value of the type %s cannot be. Make it again." % (error.name, kind))
        raise SystemExit(1)
    finally:
        os.chdir(home)
        save(main, imports, missing)


drive(MAIN)
