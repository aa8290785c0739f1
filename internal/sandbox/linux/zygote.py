"""The zygote: a Python process with packages imported, which forks sandboxes.

The executor starts one for each tier of packages and speaks to it over a
socket (file 3). A request lists the system calls that the new sandbox's first
two processes make; they are the executor's, and this program only sees to it
that they are made. Pid 1 becomes the sandbox's init. Pid 2 waits, already
confined, until the executor hands it a program, and then becomes that program:
nothing of what is here is in its sight.
"""

import sys

OWN = frozenset(sys.modules)  # what the interpreter itself imports

import _random
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
CLONE_VM = 0x100
HABIT = 20  # an interpreter adapts code that ran some 10 times

# The room in which a request lies, as zygote_request.go describes it.
ROOM = 1 << 18
FILES, FILTER, PIDFD, FUNCTIONS, TOUCH, ARGV, REQUEST, STEPS = 0, 128, 144, 160, 176, 192, 256, 320
HEAD = struct.Struct("=5I")
STEP = struct.Struct("=4I6Q")

AFTER_FORK = []  # what packages want done in a child

decoder = json.JSONDecoder()
libc = ctypes.PyDLL(None, use_errno=True)
fork = getattr(libc, "_Fork", libc.fork)  # without what libraries want done; older ones have the other alone
libc.syscall.restype = ctypes.c_long
libc.syscall.argtypes = [ctypes.c_void_p] * 7
PART = struct.Struct("=QQi")  # of memory: address, length, and what to ask for


class Room:
    """The area of memory in which requests lie, and where things are in it."""

    def __init__(self):
        self.memory = new_area(ROOM)
        self.address = address_of(self.memory)
        struct.pack_into("=QQ13s", self.memory, ARGV, self.address + ARGV + 16, 0, b"airlock init")

    def receive(self, server):
        """Puts a request and the numbers of its open files in place. Returns how
        many steps setup, init and main have, where the listener's number will lie,
        and how much to prepare; None at the end."""
        count, rights, _, _ = server.recvmsg_into([memoryview(self.memory)[REQUEST:]], socket.CMSG_SPACE(4 * 32))
        if count == 0:
            return None
        at = FILES
        for _, _, data in rights:
            self.memory[at : at + len(data)] = data
            at += len(data)
        return (*HEAD.unpack_from(self.memory, REQUEST), at // 4)

    def number(self, place):
        return struct.unpack_from("=i", self.memory, place)[0]

    def walk(self, first, count, kind):
        """Makes the system calls of a list; the first that fails ends the process."""
        for index in range(count):
            number, kinds, result, _, *args = STEP.unpack_from(self.memory, first + index * STEP.size)
            for place in range(6):
                if kinds >> 2 * place & 1:
                    args[place] += self.address
                if kinds >> 2 * place & 2:
                    args[place] = ctypes.c_int.from_address(args[place]).value
            value = libc.syscall(number, *args)
            if value < 0:
                tell(kind, index, ctypes.get_errno())
                os._exit(1)
            if result:
                struct.pack_into("=i", self.memory, result, value)


def new_area(size):
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def address_of(area):
    return ctypes.addressof(ctypes.c_char.from_buffer(area))


def tell(kind, index, value):
    os.write(REPORT, struct.pack("=Iii", kind, index, value))


def spawn(room, counts, constants):
    """Makes a sandbox. Returns the pid of its pid 1, and 0 in its pid 2, which
    waits for a program; a negative errno if it cannot. Without machine code for
    it, this does the same, and pid 1 goes on in Python."""
    if constants["spawn"] is not None:
        pid = constants["spawn"](room.address, constants["flags"])
        if pid == 0:
            register_again(constants)
        return pid
    pid = libc.syscall(constants["clone"], constants["flags"], 0, room.address + PIDFD, 0, 0, 0)
    if pid < 0:
        return -ctypes.get_errno()
    if pid == 0:
        setup, init, main = counts
        room.walk(STEPS, setup, SETUP_ERROR)
        if fork() != 0:
            room.walk(STEPS + setup * STEP.size, init, INIT_ERROR)
            reap()
        for number, _, _, _, *args in STEP.iter_unpack(constants["touched"] or b""):
            libc.syscall(number, *args)  # nobody depends on it
        room.walk(STEPS + (setup + init) * STEP.size, main, MAIN_ERROR)
    return pid


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


def find_rseq(number):
    """The call with which libc told the kernel where to say on which processor a
    thread runs; None if it did not."""
    try:
        if ctypes.c_uint.in_dll(libc, "__rseq_size").value == 0:
            return None
        offset = ctypes.c_ssize_t.in_dll(libc, "__rseq_offset").value
    except ValueError:
        return None  # this libc has none
    libc.pthread_self.restype = ctypes.c_size_t
    length, flags, signature = 32, 0, 0x53053053
    return number, libc.pthread_self() + offset, length, flags, signature, 0, 0


def register_again(constants):
    """Who is forked by a process that shares the zygote's memory has no rseq."""
    call = constants["rseq"]
    if call is not None and constants["flags"] & CLONE_VM:
        ctypes.c_int.from_address(call[1] + 4).value = -1  # not known, should the kernel refuse
        libc.syscall(*call)


def load_spawn(code, room):
    """Puts machine code where it can be run, and into the room what it needs to
    find there."""
    if not code:
        return None
    pages = new_area(mmap.PAGESIZE)
    pages[: len(code)] = code
    start = address_of(pages)
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        return None
    addresses = (ctypes.cast(function, ctypes.c_void_p).value for function in (fork, libc.__errno_location))
    struct.pack_into("=QQ", room.memory, FUNCTIONS, *addresses)
    function = ctypes.PYFUNCTYPE(ctypes.c_long, *[ctypes.c_size_t] * 2)(start)
    function.pages = pages  # to keep them
    return function


def live(listener, prepare, constants):
    """What pid 2 does: it waits for a program, and becomes it. Of what Python does
    after a fork only what packages have asked for is done: there are no threads
    and nobody holds a lock, and all of it would copy a megabyte of memory."""
    for hook in AFTER_FORK:
        hook()
    control = _socket.socket(fileno=CONTROL)
    room = new_area(1 << 17)  # its pages come as they are needed
    limber_up(prepare, constants)
    if listener:
        send_file(control, b"{}", listener)
        os.close(listener)
    else:
        control.send(b"{}")
    handed = receive(control, room)
    room.close()
    become_program(handed, constants)


def send_file(link, message, fd):
    link.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("=i", fd))])


def receive(control, room):
    """Takes over a program and its open files, which take the numbers from 0 on,
    the lowest that are free."""
    os.closerange(0, 3)
    count, _, _, _ = control.recvmsg_into([room], socket.CMSG_SPACE(4 * 4))
    if count == 0:
        os._exit(0)
    control.close()
    (length,) = struct.unpack_from("=I", room)
    handed = decoder.raw_decode(room[4 : 4 + length].decode())[0]
    handed["Code"] = room[4 + length : count] or None  # else it is read from its file
    return handed


def limber_up(much, constants):
    """Gets ready what the program is going to use, while there is time. And
    nobody is to share our random numbers."""
    try:
        if much > 1:
            rehearse()
    except OSError:
        pass  # a neighbour has used something up: what was not rehearsed takes a little longer
    if "random" in sys.modules:
        _random.Random.seed(sys.modules["random"]._inst, None)
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
    message = json.dumps(handed).encode()
    socket.send_fds(theirs, [struct.pack("=I", len(message)), message], [0, 0, 0])
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


def learn(server, room, prepare, constants):
    """Lets a child go the way of the sandbox that was just asked for and of a
    program in it, and makes a list of steps that touch the memory which it used:
    what it made on its way lies where the next ones will find theirs."""
    ours, theirs = os.pipe()
    pid = fork()
    if pid == 0:
        constants["lesson"] = theirs
        os.dup2(constants["rehearsal"], CONTROL, inheritable=False)  # the program that is handed over is ours
        go(server, 0, prepare, constants)
    os.close(theirs)
    with open(ours, "rb") as file:
        parts = file.read()
    os.waitpid(pid, 0)
    count = len(parts) // PART.size
    steps = new_area(max(1, count) * STEP.size)
    for index, (address, length, advice) in enumerate(PART.iter_unpack(parts)):
        STEP.pack_into(steps, index * STEP.size, constants["madvise"], 0, 0, 0, address, length, advice, 0, 0, 0)
    struct.pack_into("=QQ", room.memory, TOUCH, address_of(steps), count)
    return steps


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
    libc.syscall(constants["finish"], code, 0, 0, 0, 0, 0)  # here the executor ends it
    os._exit(code)


def conduct(handed):
    if handed["Root"] != USUAL_ROOT:
        os.chdir(handed["Root"])
    if handed["Env"] is not None:  # else it is the one of our rehearsals
        set_environment(handed["Env"])
    gc.enable()
    return program.conduct(handed["Argv"][1], handed["Argv"][2:], handed["EchoLast"], handed["ShowPlots"], handed["Alone"], handed["Code"])


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
    """Imports what it can, and returns what it cannot, with the reason. Notes what
    packages want done in a child after a fork; random's numbers are our concern."""
    left_out = {}
    register = os.register_at_fork

    def note(**hooks):
        if sys._getframe(1).f_globals.get("__name__") != "random":
            AFTER_FORK.append(hooks.get("after_in_child"))
        register(**hooks)

    os.register_at_fork = note
    for name in modules:
        try:
            __import__(name)
        except BaseException as error:
            left_out[name] = f"{type(error).__name__}: {error}"
    os.register_at_fork = register
    AFTER_FORK[:] = filter(None, AFTER_FORK)
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


def serve(server, room, constants):
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
            request = room.receive(server)
            if request is None:
                os._exit(0)
            setup, init, main, listener, prepare, files = request
            pid = spawn(room, (setup, init, main), constants)
            if pid == 0:
                go(server, room.number(listener) if listener else 0, prepare, constants)
            if pid > 0:
                pidfd = room.number(PIDFD)
                children[pidfd] = pid
                poll.register(pidfd, select.POLLIN)
                send_file(server, b'{"Pid": %d}' % pid, pidfd)
            else:
                server.send(b'{"Errno": %d}' % -pid)
            for number in range(files):
                os.close(room.number(FILES + 4 * number))
            if pid > 0 and constants["touched"] is None:
                constants["touched"] = learn(server, room, prepare, constants)


def go(server, listener, prepare, constants):
    """What a child does. It never returns."""
    try:
        server.detach()  # it is closed, or is to stay
        live(listener, prepare, constants)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the executor is gone
    except BaseException:
        sys.__excepthook__(*sys.exc_info())
    os._exit(97)


def begin():
    server = socket.socket(fileno=3)
    room = Room()
    constants = json.loads(server.recv(1 << 18))
    rules = bytes.fromhex(constants["filter"])
    constants["filter"] = ctypes.create_string_buffer(rules)  # to keep it
    struct.pack_into("=HxxxxxxQ", room.memory, FILTER, len(rules) // 8, ctypes.addressof(constants["filter"]))
    constants["spawn"] = load_spawn(bytes.fromhex(constants["spawn"]), room)
    constants["rseq"] = find_rseq(constants["rseq"])
    room.walk(STEPS, room.receive(server)[0], SETUP_ERROR)  # what confines this process and all that it forks
    left_out = preload(constants["preload"])
    for hook in AFTER_FORK:
        hook()  # what it closes is still open here
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
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # a program unblocks them
    server.send(json.dumps({"LeftOut": left_out, "Threads": threads}).encode())
    if threads == 1:
        serve(server, room, constants)


program = load_program()
try:
    begin()
except (BrokenPipeError, ConnectionResetError):
    os._exit(0)  # the executor is gone
