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

import _socket
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

USUAL_ROOT, USUAL_PROGRAM = "/workspace", "/workspace/main.py"
REPORT, CONTROL = 900, 901  # where a sandbox's pipe to the executor and its socket are placed: above whatever a zygote has open
SETUP_ERROR, INIT_ERROR, MAIN_ERROR, EXIT = 2, 3, 4, 5  # kinds of reports
MADV_POPULATE_READ, MADV_POPULATE_WRITE = 22, 23
NOTHING = (0,) * 6  # what a call does not ask for
HABIT = 20  # an interpreter adapts code that ran some 10 times

decoder = json.JSONDecoder()
libc = ctypes.PyDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.syscall.argtypes = [ctypes.c_void_p] * 7  # each takes a number, or bytes for their address
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
PART = struct.Struct("=QQi")  # of memory: address, length, and what to ask for


def call(number, *args):
    result = libc.syscall(number, *args, *NOTHING[len(args) :])
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prepare(step, files, constants):
    """Turns a step of a request into what walk takes."""
    number, args, *rest = step
    args = [argument(given, files, constants) for given in args]
    if rest and rest[-1]:  # something is going to be filled in
        args[rest[2]] = ctypes.create_string_buffer(args[rest[2]])
    return number, args, rest


def argument(given, files, constants):
    if isinstance(given, int):
        return given
    if isinstance(given, str):
        return bytes.fromhex(given)  # and a NUL, which all bytes have behind them
    if given is None:
        return constants["filter"]
    return files[given[0]]


def walk(steps, kind, constants):
    """Makes the system calls of a list, and returns those of their results that
    have a name; the first that fails ends the process."""
    slots = {}
    for index, (number, args, rest) in enumerate(steps):
        result, first, place, offset, name = rest or (0, 0, 0, 0, 0)
        if first:
            args[0] = slots[first]
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


def reap(constants):
    """The life of pid 1: collects whatever ends, and says how pid 2 did."""
    if constants["reap"] is not None and leave_rseq(constants["rseq"]):
        constants["reap"]()
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(1)
        if pid == 2:
            tell(EXIT, 0, status)
            os._exit(0)


def leave_rseq(number):
    """Keeps the kernel from writing to a place of libc's that is about to go."""
    try:
        if ctypes.c_uint.in_dll(libc, "__rseq_size").value == 0:
            return True
        offset = ctypes.c_ssize_t.in_dll(libc, "__rseq_offset").value
    except ValueError:
        return True  # this libc has none
    libc.pthread_self.restype = ctypes.c_size_t
    area, length, unregister, signature = libc.pthread_self() + offset, 32, 1, 0x53053053
    return libc.syscall(number, area, length, unregister, signature, 0, 0) == 0


def load_reaper(code):
    """Puts machine code where pid 1 can run it without anything else of ours,
    beside a page with the report that it is going to make."""
    if not code:
        return None
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages[: len(code)] = code
    struct.pack_into("=Iii", pages, mmap.PAGESIZE, EXIT, 0, 0)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        return None
    # The kernel's own pages lie at the top; it may not let them go.
    with open("/proc/self/maps") as maps:
        top = min(int(line.split("-")[0], 16) for line in maps if "[v" in line)
    function = ctypes.PYFUNCTYPE(None, *[ctypes.c_size_t] * 4)(start)

    def reap_alone(kept=pages):  # which are unmapped when nobody knows them any more
        function(REPORT, start, start + mmap.PAGESIZE, top)

    return reap_alone


def become_sandbox(request, files, constants):
    os.dup2(files[request["Report"]], REPORT, inheritable=False)
    os.dup2(files[request["Control"]], CONTROL, inheritable=False)
    lists = [[prepare(step, files, constants) for step in request[name]] for name in ("Setup", "Init", "Main")]
    if constants["lesson"] is not None:
        pretend(lists, constants)
    every = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    signal.pthread_sigmask(signal.SIG_BLOCK, every)
    walk(lists[0], SETUP_ERROR, constants)
    if os.fork() != 0:
        walk(lists[1], INIT_ERROR, constants)
        reap(constants)
    listener = walk(lists[2], MAIN_ERROR, constants).get(request["Listener"])
    os.close(REPORT)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, every)
    control = _socket.socket(fileno=CONTROL)
    room = mmap.mmap(-1, 1 << 17, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # its pages come as they are needed
    limber_up(room, request["Prepare"], constants)
    if listener is None:
        control.send(b"{}")
    else:
        socket.send_fds(control, [b"{}"], [listener])
        os.close(listener)
    handed = receive(control, room)
    room.close()
    become_program(handed, constants)


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
    return decoder.raw_decode(message.decode())[0]


def limber_up(room, much, constants):
    """Gets ready what the program is going to write to and to read, while there
    is time: memory stops being shared with the zygote page by page, and a fork
    knows nothing of the pages of files. And nobody is to share our random
    numbers."""
    try:
        if much > 0:
            for part in PART.iter_unpack(constants["touched"] or b""):
                libc.madvise(*part)
        if much > 1:
            rehearse()
    except OSError:
        pass  # a neighbour has used something up: what was not rehearsed takes a little longer
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "numpy" in constants:
        seed_numpy(constants["numpy"])
    gc.freeze()  # what is there now is no program's to collect
    os.chdir(USUAL_ROOT)
    program.expect(USUAL_PROGRAM)


def seed_numpy(state):
    """Seeds numpy's old generator, by writing its state: it would go through a
    hundred pages to do that itself."""
    words, size = 624, 4  # of the Mersenne Twister; behind them is how many are used up
    ctypes.memmove(state, os.urandom(words * size) + struct.pack("=i", words), (words + 1) * size)


def practise(room, constants):
    ours, theirs = rehearsed_program(constants)
    theirs.close()
    handed = receive(ours, room)
    os.chdir(handed["Root"])
    set_environment(handed["Env"])
    gc.enable()
    program.rehearse(handed["Argv"][1])


def rehearsed_program(constants):
    """The two ends of a socket on which a program of ours is handed over."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    handed = {
        "Argv": ["python3", os.path.join(os.path.dirname(__file__), "rehearsal.py")], "Env": constants["env"],
        "Root": USUAL_ROOT, "EchoLast": False, "ShowPlots": False, "Alone": True,
    }
    socket.send_fds(theirs, [json.dumps(handed).encode()], [0, 0, 0])
    return ours, theirs


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


def learn(server, own_namespace, request, files, constants):
    """Lets a child go the way of the sandbox that was just asked for and of a
    program in it, and returns the parts of the memory that it used, packed, so
    that they take no room among ours: what it made on its way lies where the next
    ones will find theirs."""
    ours, theirs = os.pipe()
    pid = libc.fork()
    if pid == 0:
        constants["lesson"] = theirs
        go(server, own_namespace, request, files, constants)
    os.close(theirs)
    with open(ours, "rb") as file:
        parts = file.read()
    os.waitpid(pid, 0)
    return parts


def pretend(lists, constants):
    """In a lesson no system call of the executor's is made, and the program that
    is handed over is ours."""
    for steps in lists:
        del steps[:]
    os.dup2(constants["rehearsal"], CONTROL, inheritable=False)


def finish_lesson(constants):
    with open(constants["lesson"], "wb") as file:
        for part in used_pages():
            file.write(PART.pack(*part))
    os._exit(0)


def used_pages():
    """The parts of this process's memory that are nobody else's, and those of
    files that it has looked at since it was forked."""
    size, present, alone = mmap.PAGESIZE, 1 << 63, 1 << 56  # alone: mapped by one process
    parts = []
    with open("/proc/self/maps") as maps, open("/proc/self/pagemap", "rb", buffering=0) as pages:
        for line in maps.readlines():
            span, mode, _, _, inode, *_ = line.split()
            if mode[1] == "w" and mode[3] == "p":
                advice, wanted = MADV_POPULATE_WRITE, present | alone
            elif mode[1] == "-" and inode != "0":
                advice, wanted = MADV_POPULATE_READ, present
            else:
                continue
            first, last = (int(end, 16) for end in span.split("-"))
            pages.seek(first // size * 8)
            for number, (entry,) in enumerate(struct.iter_unpack("=Q", pages.read((last - first) // size * 8))):
                start = first + number * size
                if entry & wanted != wanted:
                    continue
                if parts and parts[-1][2] == advice and sum(parts[-1][:2]) == start:
                    parts[-1][1] += size
                else:
                    parts.append([start, size, advice])
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


def become_program(handed, constants):
    """Runs a program as `python3 file` would, and never returns."""
    code = conduct(handed)
    if os.getpid() != 2 and constants["lesson"] is None:
        os._exit(code)  # the program forked, and this is not the one that we wait for
    os.closerange(0, 3)  # whoever reads the output sees its end
    if constants["lesson"] is not None:
        finish_lesson(constants)
    libc.syscall(constants["finish"], code, *NOTHING[1:])  # here the executor ends it
    os._exit(code)


def conduct(handed):
    if handed["Root"] != USUAL_ROOT:
        os.chdir(handed["Root"])
    if handed["Env"] is not None:  # else it is the one of our rehearsals
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
            call(constants["unshare"], 0x20000000)  # CLONE_NEWPID, for the next child
            pid = libc.fork()  # without what Python does after a fork: pid 1 is about to fork again
            if pid == 0:
                go(server, own_namespace, request, files, constants)
            call(constants["setns"], own_namespace, 0x20000000)
            pidfd = os.pidfd_open(pid)
            children[pidfd] = pid
            poll.register(pidfd, select.POLLIN)
            socket.send_fds(server, [json.dumps({"Pid": pid}).encode()], [pidfd])
            if constants["touched"] is None:
                constants["touched"] = learn(server, own_namespace, request, files, constants)
            for received in files:
                os.close(received)
            del message, request, files  # the next ones will lie in the same place


def go(server, own_namespace, request, files, constants):
    """What a child does. It never returns."""
    try:
        server.close()
        os.close(own_namespace)
        become_sandbox(request, files, constants)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the executor is gone
    except BaseException:
        sys.__excepthook__(*sys.exc_info())
    os._exit(97)


def begin():
    server = socket.socket(fileno=3)
    message, files, _, _ = socket.recv_fds(server, 1 << 18, 1)
    constants = json.loads(message)
    rules = bytes.fromhex(constants["filter"])
    instructions = ctypes.create_string_buffer(rules)
    prog = struct.pack("=HxxxxxxQ", len(rules) // 8, ctypes.addressof(instructions))
    constants["filter"] = ctypes.create_string_buffer(prog)
    constants["keep"] = instructions
    walk([prepare(step, files, constants) for step in constants["confine"]], SETUP_ERROR, constants)
    constants["reap"] = load_reaper(bytes.fromhex(constants["reaper"]))
    left_out = preload(constants["preload"])
    habituate(constants)
    if "numpy.random" in sys.modules:
        constants["numpy"] = sys.modules["numpy.random"].mtrand._rand._bit_generator.ctypes.state_address
    program.settle(globals())
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        left_out["this tier"] = f"it started {threads - 1} threads, of which a fork would keep none"
    constants["filling"] = tidy()
    gc.disable()
    gc.freeze()
    constants["touched"] = constants["lesson"] = None  # what a lesson has taught, and where it is to be said
    ours, theirs = rehearsed_program(constants)
    constants["rehearsal"] = ours.detach()
    theirs.detach()
    server.send(json.dumps({"LeftOut": left_out, "Threads": threads}).encode())
    if threads == 1:
        serve(server, files[0], constants)


program = load_program()
try:
    begin()
except (BrokenPipeError, ConnectionResetError):
    os._exit(0)  # the executor is gone
