"""What a zygote does: it gets ready, and makes sandboxes for the executor.

A request lists the system calls that the new sandbox's first two processes
make; see buffer.py. Pid 1 becomes the sandbox's init. Pid 2 waits, already
confined, until the executor hands it a program, and then becomes that program:
nothing of what is here is in its sight.
"""

import _random
import _signal
import _socket
import ctypes
import gc
import os
import struct
import sys
import time

PREWARM = os.path.join(os.path.dirname(__file__), "prewarm.py")
AFTER_FORK = []  # what packages want done in a child
LIVE = []  # the driver of a live interpreter, in the tier for that
LEARNED = []  # modules that many programs import
RESEED = []  # what seeds the random numbers of packages
PLOTS = []  # whether plots were drawn
# Modules that want it for locks, which nobody holds in a process without
# threads, or for what is done here in another way.
LEFT_OUT = {"random", "logging", "concurrent.futures.thread"}

COMMIT = "MIMALLOC_ARENA_EAGER_COMMIT"


def preload(modules):
    """Imports what it can, and returns what it cannot, with the reason. Notes what
    packages want done in a child after a fork."""
    left_out = {}
    register = os.register_at_fork

    def note(**hooks):
        if sys._getframe(1).f_globals.get("__name__") not in LEFT_OUT:
            AFTER_FORK.append(hooks.get("after_in_child"))
        register(**hooks)

    os.register_at_fork = note
    # pyarrow's allocator, which reads this once, would commit 1 GiB with the first
    # table. Without control groups that is all that RLIMIT_DATA leaves a program.
    os.environ[COMMIT] = "0"
    for name in modules:
        try:
            __import__(name)
        except BaseException as error:
            left_out[name] = f"{type(error).__name__}: {error}"
    del os.environ[COMMIT]
    os.register_at_fork = register
    AFTER_FORK[:] = filter(None, AFTER_FORK)
    if "matplotlib" in sys.modules and "matplotlib" not in left_out:
        try:
            prewarm_plots()
            prewarm_plots()
            PLOTS.append(True)
        except BaseException as error:
            left_out["a first plot"] = f"{type(error).__name__}: {error}"
    return left_out


def get_ready(constants):
    """Imports what programs need. Returns what it cannot import, with the reason."""
    left_out = preload(constants["preload"])
    if constants["live"]:
        LIVE.extend(make_live())
    LEARNED[:] = constants["learned"] or ()
    if LEARNED:
        left_out |= preload(LEARNED)  # some adapt themselves to the shell
        RESEED.extend(reseeds())
        AFTER_FORK.extend(RESEED)
    return left_out


def reseeds():
    """What seeds the random numbers that packages have for themselves. Those of random and numpy come anew anyway."""
    random, numpy = sys.modules.get("random"), sys.modules.get("numpy.random")
    known = [random and random._inst, numpy and numpy.mtrand._rand._bit_generator]
    for made in gc.get_objects():
        if any(made is one for one in known):
            pass
        elif random and type(made) is random.Random:
            yield made.seed
        elif numpy and isinstance(made, numpy.BitGenerator):
            yield lambda made=made: setattr(made, "state", type(made)().state)


def make_live():
    """Makes the shell of live interpreters. What is the main module stays it."""
    first = sys.modules["__main__"]
    live = load("live")
    driver = live.Driver()
    driver.prewarm()
    sys.modules["__main__"] = first
    return live, driver


def prewarm_plots():
    """Draws two small plots, so that what the first ones load is there already: one
    with the fewest steps, and one with a table, a legend and a layout."""
    import io

    import matplotlib.pyplot as plt
    import pandas

    table = "date,region,kind,units\n2024-01-01,N,a,1\n2024-01-02,S,b,2\n"
    frame = pandas.read_csv(io.StringIO(table), parse_dates=["date"])
    totals = frame.groupby("region").units.sum().sort_values()
    repr(totals)
    figure, axes = plt.subplots()
    totals.plot.bar(ax=axes)
    axes.set_title("x")
    figure.savefig(io.BytesIO(), format="png")
    totals = frame.groupby(["region", "kind"]).units.sum().unstack(fill_value=0)
    totals.to_string()
    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    totals.plot.bar(ax=axes)
    axes.set_title("x", loc="left")
    axes.yaxis.grid(True)
    axes.legend(title="x")
    figure.savefig(io.BytesIO(), format="png", dpi=150)
    plt.close("all")


def begin():
    server = _socket.socket(fileno=3)
    place = buffer.RequestBuffer()
    hello = server.recv(1 << 18)
    constants = in_child(lambda: __import__("json").loads(hello))
    rules = bytes.fromhex(constants["filter"])
    constants["filter"] = ctypes.create_string_buffer(rules)  # to keep it
    struct.pack_into("=HxxxxxxQ", place.memory, buffer.FILTER, len(rules) // 8, ctypes.addressof(constants["filter"]))
    constants["spawn"] = buffer.load_spawn(bytes.fromhex(constants["spawn"]), place)
    place.receive(server)
    place.walk(buffer.STEPS, place.number(buffer.SETUP), buffer.SETUP_ERROR)  # what confines this process and all that it forks
    left_out = get_ready(constants)
    for hook in AFTER_FORK:
        hook()  # what it closes is still open here
    warm_up(place, constants)
    place.keep_steps(buffer.OWN_STEPS, own_steps(constants))
    place.numbers[buffer.PYTHON_FIRST // 4] = len(AFTER_FORK) + len(LIVE)
    place.keep_steps(buffer.TOUCH, [])
    for part in (vars(sys.modules["__main__"]), begin.__globals__, vars(buffer), vars(warmup)):
        program.finish(part)
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        left_out["this tier"] = f"it started {threads - 1} threads, of which a fork would keep none"
    constants["filling"] = warmup.compact_heap(buffer.libc)
    gc.disable()
    constants["warmup"] = None  # where its working set is to be written
    constants["plots"] = False  # whether it is that of a program that draws
    program.expect(buffer.PROGRAM)
    gc.freeze()
    _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())  # a program unblocks them
    server.send(in_child(lambda: __import__("json").dumps({"LeftOut": left_out, "Threads": threads}).encode()))
    if threads == 1:
        serve(server, place, constants)


def store():
    """Waits for one program. Where processes are stored, that is where each copy of this one goes on, with
    a socket of its own. It never returns."""
    server = _socket.socket(fileno=0)
    for number in CHANNEL:
        os.dup2(1, number)  # to keep it: what is imported may keep its fonts open
    hello = server.recv(1 << 18)
    constants = in_child(lambda: __import__("json").loads(hello))
    left_out = get_ready(constants)
    if LIVE:
        set_environment(constants["env"])
        LIVE[1].prepare(True)
    for part in (vars(sys.modules["__main__"]), store.__globals__, vars(buffer)):
        program.finish(part)
    gc.collect()
    gc.freeze()  # as in warm_up
    for _ in range(warmup.HABIT):
        rehearse()
    program.expect(buffer.PROGRAM)
    gc.freeze()
    server.send(in_child(lambda: __import__("json").dumps({"LeftOut": left_out, "Threads": 1}).encode()))
    while True:
        message, rights, _, _ = server.recvmsg(buffer.LONGEST, _socket.CMSG_SPACE(4 * 5))
        if message != REHEARSE:
            break
        rehearse()
        gc.freeze()
        server.send(b"{}")
    server.detach()
    files = struct.unpack(f"={len(rights[0][2]) // 4}i", rights[0][2]) if rights else ()
    if not files:
        os._exit(0)  # the executor is gone
    for number, file in enumerate(files):
        os.dup2(file, number)
    for number in (*files, *CHANNEL[len(files) - 3 :]):
        os.close(number)
    program.forget_randomness()
    for seed in RESEED:
        seed()
    *limits, length = LIMITS.unpack_from(message)
    for resource in (0, 1):  # processor time, and the size of a file
        pair = (ctypes.c_uint64 * 2)(*limits[2 * resource : 2 * resource + 2])
        buffer.libc.setrlimit(resource, pair)
    start = LIMITS.size + length
    handed = buffer.Handed(message[LIMITS.size : start].decode("utf-8", "surrogateescape")) if length else buffer.USUAL
    code = conduct(handed, message[start:] or None)
    os.closerange(0, 3)  # the reader of the output sees its end
    os._exit(code)


REHEARSE = b"rehearse"  # what a copy is told that nobody waits for


def rehearse():
    """Does what comes with a program, so that the memory for it is there, and the interpreter has adapted its code."""
    if LIVE:
        LIVE[1].rehearse()
    else:
        program.prewarm(PREWARM)


CHANNEL = (3, 4)  # the numbers of a program's channel for calls
LIMITS = struct.Struct("=4QI")  # soft and hard ones, and the length of what follows


def warm_up(place, constants):
    def once():
        handed = as_handed(place, constants)
        os.chdir(handed.root)
        gc.enable()
        program.prewarm(handed.argv[0])

    gc.collect()
    gc.freeze()  # each run collects its garbage, and is not to look at all that was imported
    warmup.specialize(once)


def as_handed(place, constants):
    """Handles an internal program like one that was received."""
    place.put_program("\0".join(["0001", buffer.ROOT, "", "1", PREWARM, *constants["env"]]).encode(), b"")
    handed, _ = place.handed(buffer.PREWARM_REQUEST)
    set_environment(handed.env)
    return handed


def own_steps(constants):
    """What a child must not share with others: its processor, its random numbers,
    the key with which its processes trust one another."""
    steps = [buffer.find_rseq(constants["rseq"], constants["flags"])]
    if "random" in sys.modules:
        state = warmup.random_state()
        steps.append(state and (constants["getrandom"], state, 4 * warmup.WORDS))
        if state is None:
            AFTER_FORK.append(lambda: _random.Random.seed(sys.modules["random"]._inst, None))
    if "numpy.random" in sys.modules:
        steps.append((constants["getrandom"], warmup.numpy_state(), 4 * warmup.WORDS))
    if "multiprocessing.process" in sys.modules:
        key = sys.modules["multiprocessing.process"].current_process().authkey
        steps.append((constants["getrandom"], id(key) + bytes.__basicsize__ - 1, len(key)))  # nothing has its hash yet
    return list(filter(None, steps))


def serve(server, place, constants):
    """Makes sandboxes for the executor: the first here, and the others by machine
    code, if there is any."""
    children = {}
    while not make(server, place, constants, children):
        pass  # it could not, and has said so
    if constants["spawn"] is not None:
        ignore = struct.pack("=QQQQ", 1, 0, 0, 0)  # SIG_IGN as struct sigaction: who ends need not be waited for
        buffer.libc.syscall(constants["sigaction"], _signal.SIGCHLD, ignore, 0, 8, 0, 0)
        wait_for(children)
        number = server.detach()
        learn_all(place, constants)
        constants["spawn"](place.address, constants["flags"], number)
        live(place, constants)
    learn_all(place, constants)
    import select

    poll = select.poll()
    poll.register(server, select.POLLIN)
    while True:
        for fd in children:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll():
            if fd == server.fileno():
                make(server, place, constants, children)
            else:
                poll.unregister(fd)
                os.waitpid(children.pop(fd), 0)
                os.close(fd)


def wait_for(children):
    """Waits for what has ended already, and forgets the others."""
    for fd, pid in children.items():
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
        os.close(fd)


def make(server, place, constants, children):
    """Makes the sandbox that is asked for next, and returns whether it could. In
    its pid 2 it does not return."""
    files = place.receive(server)
    if files is None:
        os._exit(0)
    pid = buffer.spawn(place, constants)
    if pid == 0:
        server.detach()  # it is closed there, and nothing is to be found of it
        live(place, constants)
    answer, rights = struct.pack("=i", pid), []
    if pid > 0:
        pidfd = place.number(buffer.PIDFD)
        children[pidfd] = pid
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("=i", pidfd))]
    server.sendmsg([answer], rights)
    for number in range(files):
        os.close(place.number(buffer.FILES + 4 * number))
    return pid > 0


def learn_all(place, constants):
    """The last that a zygote does before it only serves."""
    if LIVE:
        return  # an interpreter rehearses
    if PLOTS:
        learn(place, constants, True)
    learn(place, constants, False)


def learn(place, constants, plots):
    """Makes a list of steps that touch the memory that a program will use: a child
    goes the way of a sandbox, runs an internal program, draws plots before
    that if it is told to, and makes that list. What it
    made on its way lies where the next ones will find theirs, so this process
    does next to nothing from then on."""
    ours, theirs = os.pipe()
    child = buffer.fork()
    if child == 0:
        for number in (1, 2):
            os.dup2(0, number)
        with open(PREWARM, "rb") as file:
            place.put_program(b"", file.read())  # as if it were received, which uses no memory of Python's
        place.put_request(0, 0, 0, 0, 0, buffer.PREWARM_REQUEST)
        place.keep_steps(buffer.OWN_STEPS, [])
        constants["warmup"], constants["flags"] = theirs, _signal.SIGCHLD
        constants["plots"] = plots
        buffer.libc.prctl(buffer.CHILD_SUBREAPER, 1, 0, 0, 0)
        # The first sandbox has made our memory undumpable, and without root's rights we read of ours otherwise.
        buffer.libc.prctl(buffer.DUMPABLE, 1, 0, 0, 0)
        if buffer.spawn(place, constants) == 0:
            live(place, constants)
        try:
            while True:
                os.wait()  # what the two share while this one lives is not the sandbox's own
        except ChildProcessError:
            os._exit(0)
    os.close(theirs)
    if not (place.read_plots(ours) if plots else place.read_steps(buffer.TOUCH, ours)):
        print("airlock: what programs touch could not be learned, so each takes longer", file=sys.stderr, flush=True)
    os.close(ours)
    if child > 0:
        buffer.libc.waitpid(child, 0, 0)


def live(place, constants):
    """What pid 2 does. Of what Python does after a fork only what packages have
    asked for is done: there are no threads and nobody holds a lock, and all of it
    would copy a megabyte of memory. It never returns."""
    try:
        much = place.number(buffer.PREPARE)
        if (AFTER_FORK or LIVE or much > 1) and constants["warmup"] is None:
            prepare(place, constants, much)
            place.wait()
        become_program(*place.handed(place.number(buffer.RECEIVED)), place, constants)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the executor is gone
    except BaseException:
        sys.__excepthook__(*sys.exc_info())
    os._exit(97)


def prepare(place, constants, much):
    """What needs Python and can be done while there is time."""
    for hook in AFTER_FORK:
        hook()
    if much > 1:
        place.touch_plots(constants["madvise"])
    if LIVE:
        if much > 0:
            as_handed(place, constants)
        LIVE[1].prepare(much > 0)
    gc.freeze()  # what is there now is no program's to collect


def become_program(handed, source, place, constants):
    """Runs a program as `python3 file` would, and never returns."""
    if constants["warmup"] is not None and constants["plots"]:
        gc.enable()
        prewarm_plots()
    code = conduct(handed, source)
    if os.getpid() != 2 and constants["warmup"] is None:
        os._exit(code)  # the program forked, and this is not the one that we wait for
    os.closerange(0, 3)  # the reader of the output sees its end
    if constants["warmup"] is not None:
        buffer.libc.syscall(constants["madvise"], 0, 0, 0, 0, 0, 0)  # uses what the next call does
        parts = [(place.address + buffer.READY, buffer.MESSAGE - buffer.READY + 4096, warmup.POPULATE_WRITE), *warmup.working_set()]
        with open(constants["warmup"], "wb") as file:
            if constants["plots"]:
                file.write(b"".join(buffer.PART.pack(*part) for part in parts[: buffer.MAX_PLOTS]))
            else:
                file.write(buffer.packed([(constants["madvise"], *part) for part in parts[: buffer.MAX_PREFAULTS]]))
        os._exit(0)
    buffer.libc.syscall(constants["finish"], code, 0, 0, 0, 0, 0)  # here the executor ends it
    os._exit(code)


def conduct(handed, source):
    if handed.root != buffer.ROOT:
        os.chdir(handed.root)
    if handed.env is not None:  # else it is the one of our prewarming
        set_environment(handed.env)
    gc.enable()
    if LIVE:
        if LEARNED:
            program.make_way("")
        LIVE[0].serve(LIVE[1], handed.argv[1:])
        return 0
    return program.conduct(handed.argv[0], handed.argv[1:], handed.echo_last, handed.show_plots, handed.modules, handed.alone, source)


def set_environment(entries):
    """Makes the environment this one. Most of it is there from prewarming,
    and setting an entry costs more than looking at it."""
    wanted = dict(entry.split("=", 1) for entry in entries)
    for name in [name for name in os.environ if name not in wanted]:
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    installed = os.environ.get("PIP_TARGET")
    if installed:  # as PYTHONPATH, which was read before it was there
        sys.path.insert(1, installed)
    if "TZ" in wanted:
        time.tzset()
