"""The zygote: a Python process with packages imported, which forks sandboxes.

The executor starts one for each tier of packages and speaks to it over a
socket (file 3). A request lists the system calls that the new sandbox's first
two processes make; they are the executor's, and this program only makes them.
Pid 1 stays as the sandbox's init. Pid 2 waits, already confined, until the
executor hands it a program, and then becomes that program: nothing of what is
here is in its sight.
"""

import sys

OWN = frozenset(sys.modules)  # what the interpreter itself imports

import ctypes
import gc
import json
import mmap
import os
import select
import signal
import socket
import struct
import time
import types

REPORT, CONTROL = 900, 901  # where a sandbox's pipe to the executor and its socket are placed: above whatever a zygote has open
SETUP_ERROR, INIT_ERROR, MAIN_ERROR, EXIT, FINISHED = 2, 3, 4, 5, 6  # kinds of reports
DONE = 0x646F6E65  # what a program that is done writes before its exit code

libc = ctypes.PyDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(number, *args):
    result = libc.syscall(ctypes.c_long(number), *args)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prepare(step, files, constants):
    """Turns a step of a request into what walk takes."""
    number, args, *rest = step
    return number, [argument(given, files, constants) for given in args], rest


def argument(given, files, constants):
    if isinstance(given, int):
        return ctypes.c_long(given)
    if isinstance(given, str):
        return ctypes.create_string_buffer(bytes.fromhex(given))
    if given is None:
        return constants["filter"]
    return ctypes.c_long(files[given[0]])


def walk(steps, kind, constants):
    """Makes the system calls of a list; the first that fails ends the process."""
    slots = {}
    for index, (number, args, rest) in enumerate(steps):
        result, first, place, offset, name = rest or (0, 0, 0, 0, 0)
        if first:
            args[0] = ctypes.c_long(slots[first])
        if name:
            struct.pack_into("=i", args[place], offset, slots[name])
        try:
            value = call(number, *args)
        except OSError as error:
            tell(kind, index, error.errno)
            os._exit(1)
        if result:
            slots[result] = value


def tell(kind, index, value):
    os.write(REPORT, struct.pack("=Iii", kind, index, value))


def reap(ending):
    """The life of pid 1: collects whatever ends, and says how pid 2 did. One
    that is done writes its exit code where we both see it, and stops itself."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WUNTRACED)
        except ChildProcessError:
            os._exit(1)
        if pid != 2:
            continue
        if not os.WIFSTOPPED(status):
            tell(EXIT, 0, status)
            os._exit(0)
        done, code = struct.unpack_from("=Ii", ending)
        if done == DONE:
            tell(FINISHED, 0, code)


def become_sandbox(request, files, constants):
    os.dup2(files[request["Report"]], REPORT, inheritable=False)
    os.dup2(files[request["Control"]], CONTROL, inheritable=False)
    lists = [[prepare(step, files, constants) for step in request[name]] for name in ("Setup", "Init", "Main")]
    every = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    signal.pthread_sigmask(signal.SIG_BLOCK, every)
    walk(lists[0], SETUP_ERROR, constants)
    ending = mmap.mmap(-1, mmap.PAGESIZE)  # seen by pid 1 and pid 2
    if os.fork() != 0:
        walk(lists[1], INIT_ERROR, constants)
        reap(ending)
    walk(lists[2], MAIN_ERROR, constants)
    os.close(REPORT)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, every)
    control = socket.socket(fileno=CONTROL)
    # Into memory that is there: a page that is touched first costs more than a byte.
    room = bytearray(1 << 17)
    limber_up(room, request["Prepare"])
    control.send(b"{}")
    become_program(receive(control, room), ending)


def receive(control, room):
    """Takes over a program and its open files."""
    count, rights, _, _ = control.recvmsg_into([room], socket.CMSG_SPACE(4 * 4))
    if count == 0:
        os._exit(0)
    message = bytes(memoryview(room)[:count])
    received = [fd for _, _, data in rights for (fd,) in struct.iter_unpack("=i", data)]
    for number, fd in enumerate(received):
        os.dup2(fd, number)
    for fd in received:
        if fd >= len(received):
            os.close(fd)
    control.close()
    return json.loads(message)


def limber_up(room, much):
    """Does, while there is time, what the program is going to do first: the
    memory that it touches stops being shared with the zygote, page by page.
    And nobody is to share our random numbers."""
    try:
        if much > 0:
            practise(room)
        if much > 1:
            rehearse()
    except OSError:
        pass  # a neighbour has used something up: what was not rehearsed takes a little longer
    os.environ.clear()
    for name in ("random", "numpy.random"):
        if name in sys.modules:
            sys.modules[name].seed()


def practise(room):
    os.chdir("/workspace")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    rehearsed = {"Argv": ["a"] * 2, "Env": ["A=b"] * 20, "Root": "/workspace", "EchoLast": False, "ShowPlots": False}
    socket.send_fds(theirs, [json.dumps(rehearsed).encode()], [0, 0, 0])
    theirs.close()
    handed = receive(ours, room)
    os.environ.update(entry.split("=", 1) for entry in handed["Env"])
    gc.enable()
    program.rehearse(os.path.join(os.path.dirname(__file__), "rehearsal.py"))


def load_program():
    """How a program is run: a module of ours that no program can import."""
    module = types.ModuleType("program")
    module.__file__ = os.path.join(os.path.dirname(__file__), "program.py")
    with open(module.__file__, "rb") as file:
        exec(compile(file.read(), module.__file__, "exec"), module.__dict__)
    module.OWN = OWN
    module.reopen_streams()
    return module


def become_program(handed, ending):
    """Runs a program as `python3 file` would, and never returns."""
    os.chdir(handed["Root"])
    os.environ.update(entry.split("=", 1) for entry in handed["Env"])
    if "TZ" in os.environ:
        time.tzset()
    gc.enable()
    code = program.conduct(handed["Argv"][1], handed["Argv"][2:], handed["EchoLast"], handed["ShowPlots"])
    if os.getpid() != 2:
        os._exit(code)  # the program forked, and this is not the one that we wait for
    os.closerange(0, 3)  # whoever reads the output sees its end
    struct.pack_into("=Ii", ending, 0, DONE, code)
    while True:  # the executor ends it; should it not, init's report of the code stands
        os.kill(os.getpid(), signal.SIGSTOP)


def preload(modules):
    """Imports what it can, and returns what it cannot, with the reason."""
    left_out = {}
    for name in modules:
        try:
            __import__(name)
        except BaseException as error:
            left_out[name] = f"{type(error).__name__}: {error}"
    if "matplotlib" in sys.modules and "matplotlib" not in left_out:
        try:
            rehearse()
            rehearse()
        except BaseException as error:
            left_out["a first plot"] = f"{type(error).__name__}: {error}"
    return left_out


def rehearse():
    """Draws a small plot, so that what a first one loads is there already."""
    import io

    import matplotlib.pyplot as plt
    import pandas

    frame = pandas.read_csv(io.StringIO("date,region,units\n2024-01-01,N,1\n2024-01-02,S,2\n"), parse_dates=["date"])
    totals = frame.groupby("region").units.sum().sort_values()
    repr(totals)
    figure, axes = plt.subplots()
    totals.plot.bar(ax=axes)
    axes.set_title("x")
    figure.savefig(io.BytesIO(), format="png")
    plt.close("all")


def serve(server, own_namespace, constants):
    poll = select.poll()
    poll.register(server, select.POLLIN)
    children = {}
    while True:
        for fd, _ in poll.poll():
            if fd != server.fileno():
                poll.unregister(fd)
                os.waitpid(children.pop(fd), 0)
                os.close(fd)
                continue
            message, files, _, _ = socket.recv_fds(server, 1 << 18, 32)
            if not message:
                os._exit(0)
            request = json.loads(message)
            call(constants["unshare"], ctypes.c_long(0x20000000))  # CLONE_NEWPID, for the next child
            pid = libc.fork()  # without what Python does after a fork: pid 1 is about to fork again
            if pid == 0:
                try:
                    server.close()
                    os.close(own_namespace)
                    become_sandbox(request, files, constants)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # the executor is gone
                except BaseException:
                    sys.__excepthook__(*sys.exc_info())
                os._exit(97)
            call(constants["setns"], ctypes.c_long(own_namespace), ctypes.c_long(0x20000000))
            for received in files:
                os.close(received)
            pidfd = os.pidfd_open(pid)
            children[pidfd] = pid
            poll.register(pidfd, select.POLLIN)
            socket.send_fds(server, [json.dumps({"Pid": pid}).encode()], [pidfd])


def begin():
    server = socket.socket(fileno=3)
    message, files, _, _ = socket.recv_fds(server, 1 << 18, 1)
    constants = json.loads(message)
    program = bytes.fromhex(constants["filter"])
    instructions = ctypes.create_string_buffer(program)
    prog = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(instructions))
    constants["filter"] = ctypes.create_string_buffer(prog)
    constants["keep"] = instructions
    walk([prepare(step, files, constants) for step in constants["confine"]], SETUP_ERROR, constants)
    left_out = preload(constants["preload"])
    compile("0", "<rehearsal>", "exec")
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        left_out["this tier"] = f"it started {threads - 1} threads, of which a fork would keep none"
    gc.collect()
    gc.disable()
    gc.freeze()
    server.send(json.dumps({"LeftOut": left_out, "Threads": threads}).encode())
    if threads == 1:
        serve(server, files[0], constants)


program = load_program()
try:
    begin()
except (BrokenPipeError, ConnectionResetError):
    os._exit(0)  # the executor is gone
