"""Runs a Python program with the variables that the last one of its session
left, and keeps those that it leaves itself. They lie in a file in the
workspace, like everything else that a session keeps, and are read nowhere but
in the sandbox."""

import linecache
import os
import pickle
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


def restore(main):
    try:
        with open(STATE, "rb") as file:
            state = pickle.load(file)
    except FileNotFoundError:
        return
    except Exception as error:
        say("The variables of the program before are lost: %s" % error)
        return
    lost = []
    for name, module in state["modules"].items():
        try:
            main[name] = __import__(module, fromlist=["."])
        except Exception:
            lost.append(name)
    try:
        main.update(pickle.loads(state["values"]))
    except Exception as error:
        say("The variables of the program before are lost: %s" % error)
    if lost:
        say("These modules are not there any more: %s" % ", ".join(lost))


def save(main):
    modules, values, lost = {}, {}, []
    for name, value in list(main.items()):
        if name.startswith("__") and name.endswith("__"):
            continue
        if isinstance(value, types.ModuleType):
            modules[name] = value.__name__
        else:
            values[name] = value
    try:
        text = dumps(values)
    except Exception:
        for name in list(values):
            try:
                dumps(values[name])
            except Exception:
                del values[name]
                lost.append(name)
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
            pickle.dump({"modules": modules, "values": text}, file)
        os.replace(STATE + ".new", STATE)
    except OSError as error:
        say("The variables are not kept: %s" % error)
        return
    if lost:
        say("Not kept for the next program: %s" % ", ".join(lost))


def drive(main):
    request = read_request()
    path = main["__file__"]
    put_source(path, request["source"])
    linecache.checkcache(path)
    home = os.getcwd()
    restore(main)
    try:
        exec(compile(request["source"].encode("utf-8", "surrogatepass"), path, "exec", dont_inherit=True), main)
    except SystemExit:
        raise
    except BaseException as error:
        own_frames(error, path, set())
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1)
    finally:
        os.chdir(home)
        save(main)


drive(MAIN)
