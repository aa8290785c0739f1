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
SETUP_ERROR, INIT_ERROR, MAIN_ERROR, EXIT = 2, 3, 4, 5  # kinds of reports
MADV_POPULATE_WRITE = 23
HABIT = 20  # an interpreter adapts code that ran some 10 times

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
    """Makes the system calls of a list, and returns those of their results that
    have a name; the first that fails ends the process."""
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
    return slots


def tell(kind, index, value):
    os.write(REPORT, struct.pack("=Iii", kind, index, value))


def reap():
    """The life of pid 1: collects whatever ends, and says how pid 2 did."""
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(1)
        if pid == 2:
            tell(EXIT, 0, status)
            os._exit(0)


def become_sandbox(request, files, constants):
    os.dup2(files[request["Report"]], REPORT, inheritable=False)
    os.dup2(files[request["Control"]], CONTROL, inheritable=False)
    lists = [[prepare(step, files, constants) for step in request[name]] for name in ("Setup", "Init", "Main")]
    every = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    signal.pthread_sigmask(signal.SIG_BLOCK, every)
    walk(lists[0], SETUP_ERROR, constants)
    if os.fork() != 0:
        walk(lists[1], INIT_ERROR, constants)
        reap()
    listener = walk(lists[2], MAIN_ERROR, constants).get(request["Listener"])
    os.close(REPORT)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, every)
    control = socket.socket(fileno=CONTROL)
    room = mmap.mmap(-1, 1 << 17, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # its pages come as they are needed
    limber_up(room, request["Prepare"], constants)
    if listener is None:
        control.send(b"{}")
    else:
        socket.send_fds(control, [b"{}"], [listener])
        os.close(listener)
    handed = receive(control, room)
    room.close()
    become_program(handed, ctypes.c_long(constants["finish"]))


def receive(control, room):
    """Takes over a program and its open files."""
    count, rights, _, _ = control.recvmsg_into([room], socket.CMSG_SPACE(4 * 4))
    if count == 0:
        os._exit(0)
    message = room[:count]
    received = [fd for _, _, data in rights for (fd,) in struct.iter_unpack("=i", data)]
    for number, fd in enumerate(received):
        os.dup2(fd, number)
    for fd in received:
        if fd >= len(received):
            os.close(fd)
    control.close()
    return json.loads(message)


def limber_up(room, much, constants):
    """Gets ready what the program is going to write to, while there is time:
    memory stops being shared with the zygote page by page. And nobody is to
    share our random numbers."""
    try:
        if much > 0:
            for start, length in constants["touched"]:
                libc.madvise(start, length, MADV_POPULATE_WRITE)
        if much > 1:
            rehearse()
    except OSError:
        pass  # a neighbour has used something up: what was not rehearsed takes a little longer
    for name in ("random", "numpy.random"):
        if name in sys.modules:
            sys.modules[name].seed()
    gc.freeze()  # what is there now is no program's to collect


def practise(room, constants):
    handed = receive(rehearsed_program(constants), room)
    os.chdir(handed["Root"])
    set_environment(handed["Env"])
    gc.enable()
    program.rehearse(handed["Argv"][1])


def rehearsed_program(constants):
    """A socket on which a program of ours is handed over."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    handed = {
        "Argv": ["python3", os.path.join(os.path.dirname(__file__), "rehearsal.py")], "Env": constants["env"],
        "Root": "/workspace", "EchoLast": False, "ShowPlots": False, "Alone": True,
    }
    socket.send_fds(theirs, [json.dumps(handed).encode()], [0, 0, 0])
    theirs.close()
    return ours


def habituate(constants):
    """Runs the rehearsal until the interpreter has adapted its code to it, which
    it writes into the code itself: our children need not, each for itself."""
    kept = [os.dup(number) for number in range(3)]
    room = mmap.mmap(-1, 1 << 17, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for _ in range(HABIT):
        practise(room, constants)
    room.close()
    os.chdir("/")
    for number, fd in enumerate(kept):
        os.dup2(fd, number, inheritable=number < 3)
        os.close(fd)


def tidy():
    """Fills the gaps that imports have left in the memory for small objects, and
    gives back what is free elsewhere. What a child makes then lies together, on
    few pages, and not one here and one there."""
    gc.collect()
    libc.malloc_trim(0)
    report = os.memfd_create("memory")
    kept = os.dup(2)
    os.dup2(report, 2)
    sys._debugmallocstats()
    os.dup2(kept, 2)
    os.close(kept)
    with open(report, "rb+") as file:
        file.seek(0)
        lines = file.read().decode().splitlines()
    gaps = {}
    for line in lines:
        fields = line.split()
        if len(fields) == 5 and all(field.isdigit() for field in fields):
            gaps[int(fields[1])] = int(fields[4])
    make = {16: lambda: object(), 32: lambda: complex(1, 1)}
    empty = sys.getsizeof(b"")
    return [make.get(size, lambda: bytes(size - empty))() for size, count in gaps.items() for _ in range(count)]


def learn(constants):
    """Lets a child go the whole way of a program, and returns the memory that
    it no longer shares with us: a list of addresses and lengths."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(ours)
            room = mmap.mmap(-1, 1 << 17, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            limber_up(room, 1, constants | {"touched": []})
            conduct(receive(rehearsed_program(constants), room))
            with open(theirs, "wb") as file:
                file.write(json.dumps(own_pages()).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as file:
        answer = file.read()
    os.waitpid(pid, 0)
    return [(ctypes.c_void_p(start), ctypes.c_size_t(length)) for start, length in json.loads(answer or b"[]")]


def own_pages():
    """The parts of this process's memory that are nobody else's."""
    size, own = mmap.PAGESIZE, 1 << 63 | 1 << 56  # present, mapped by one process
    parts = []
    with open("/proc/self/maps") as maps, open("/proc/self/pagemap", "rb", buffering=0) as pages:
        for line in maps.readlines():
            span, mode, *_ = line.split()
            if mode[1] != "w" or mode[3] != "p":
                continue
            first, last = (int(end, 16) for end in span.split("-"))
            pages.seek(first // size * 8)
            for number, (entry,) in enumerate(struct.iter_unpack("=Q", pages.read((last - first) // size * 8))):
                start = first + number * size
                if entry & own != own:
                    continue
                if parts and sum(parts[-1]) == start:
                    parts[-1][1] += size
                else:
                    parts.append([start, size])
    return parts


def load_program():
    """How a program is run: a module of ours that no program can import."""
    module = types.ModuleType("program")
    module.__file__ = os.path.join(os.path.dirname(__file__), "program.py")
    with open(module.__file__, "rb") as file:
        exec(compile(file.read(), module.__file__, "exec"), module.__dict__)
    module.OWN = OWN
    module.reopen_streams()
    return module


def become_program(handed, finish):
    """Runs a program as `python3 file` would, and never returns."""
    code = conduct(handed)
    if os.getpid() != 2:
        os._exit(code)  # the program forked, and this is not the one that we wait for
    os.closerange(0, 3)  # whoever reads the output sees its end
    libc.syscall(finish, ctypes.c_long(code))  # here the executor ends it
    os._exit(code)


def conduct(handed):
    os.chdir(handed["Root"])
    set_environment(handed["Env"])
    gc.enable()
    return program.conduct(handed["Argv"][1], handed["Argv"][2:], handed["EchoLast"], handed["ShowPlots"], handed["Alone"])


def set_environment(entries):
    """Makes the environment this one. Most of it is there from the rehearsal,
    and setting an entry costs more than looking at it."""
    wanted = dict(entry.split("=", 1) for entry in entries)
    for name in [name for name in os.environ if name not in wanted]:
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    if "TZ" in wanted:
        time.tzset()


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
    habituate(constants)
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        left_out["this tier"] = f"it started {threads - 1} threads, of which a fork would keep none"
    constants["filling"] = tidy()
    gc.disable()
    gc.freeze()
    constants["touched"] = learn(constants) if threads == 1 else []
    server.send(json.dumps({"LeftOut": left_out, "Threads": threads}).encode())
    if threads == 1:
        serve(server, files[0], constants)


program = load_program()
try:
    begin()
except (BrokenPipeError, ConnectionResetError):
    os._exit(0)  # the executor is gone
