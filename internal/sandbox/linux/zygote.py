"""The zygote: a Python process with packages imported, which forks sandboxes.

The executor starts one for each tier of packages and speaks to it over a
socket (file 3). A request lists the system calls that the new sandbox's first
two processes make; they are the executor's, and this program only makes them.
Pid 1 stays as the sandbox's init. Pid 2 waits, already confined, until the
executor hands it a program, and then becomes that program: nothing of what is
here is in its sight.
"""

import atexit
import ctypes
import gc
import importlib.machinery
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import types

REPORT, CONTROL = 100, 101  # where a sandbox's pipe to the executor and its socket are placed
SETUP_ERROR, INIT_ERROR, MAIN_ERROR, EXIT, FINISHED = 2, 3, 4, 5, 6  # kinds of reports
DONE = 34  # the signal, the first real-time one that libc leaves free, by which pid 2 tells pid 1 its exit code

libc = ctypes.PyDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(number, *args):
    result = libc.syscall(ctypes.c_long(number), *args)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prepare(step, files, constants):
    """Turns a step of a request into a list of arguments for syscall()."""
    args = []
    for kind, value in step["Args"]:
        if kind == "int":
            args.append(ctypes.c_long(value))
        elif kind == "file":
            args.append(ctypes.c_long(files[value]))
        elif kind == "bytes":
            args.append(ctypes.create_string_buffer(bytes.fromhex(value)))
        elif kind == "filter":
            args.append(constants["filter"])
    return args


def walk(steps, kind, constants):
    """Makes the system calls of a list; the first that fails ends the process."""
    slots = {}
    for index, (step, args) in enumerate(steps):
        if step["From"]:
            args[0] = ctypes.c_long(slots[step["From"]])
        argument, offset, name = step["Filled"]
        if name:
            struct.pack_into("=i", args[argument], offset, slots[name])
        try:
            result = call(step["Number"], *args)
        except OSError as error:
            tell(kind, index, error.errno)
            os._exit(1)
        if step["Result"]:
            slots[step["Result"]] = result


def tell(kind, index, value):
    os.write(REPORT, struct.pack("=Iii", kind, index, value))


def reap():
    """The life of pid 1: collects whatever ends, and says how pid 2 did."""
    wanted = ctypes.create_string_buffer(struct.pack("=Q", 1 << (signal.SIGCHLD - 1) | 1 << (DONE - 1)))
    info = ctypes.create_string_buffer(128)
    wait, size = constants_of_this_machine["rt_sigtimedwait"], ctypes.c_long(8)
    while True:
        try:
            number = call(wait, wanted, info, None, size)
        except OSError:
            continue
        if number == DONE:
            pid, value = struct.unpack_from("=i", info, 16)[0], struct.unpack_from("=i", info, 24)[0]
            if pid == 2:
                tell(FINISHED, 0, value)
            continue
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                os._exit(1)
            if pid == 0:
                break
            if pid == 2:
                tell(EXIT, 0, status)
                os._exit(0)


def become_sandbox(request, files, constants):
    os.dup2(files[request["Report"]], REPORT, inheritable=False)
    os.dup2(files[request["Control"]], CONTROL, inheritable=False)
    lists = [[(step, prepare(step, files, constants)) for step in request[name]] for name in ("Setup", "Init", "Main")]
    every = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    signal.pthread_sigmask(signal.SIG_BLOCK, every)
    walk(lists[0], SETUP_ERROR, constants)
    if os.fork() != 0:
        walk(lists[1], INIT_ERROR, constants)
        reap()
    walk(lists[2], MAIN_ERROR, constants)
    os.close(REPORT)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, every)
    control = socket.socket(fileno=CONTROL)
    limber_up()
    control.send(b"{}")
    # Into memory that is there: a page that is touched first costs more than a byte.
    room = bytearray(1 << 17)
    count, rights, _, _ = control.recvmsg_into([room], socket.CMSG_SPACE(4 * 4))
    if count == 0:
        os._exit(0)
    message = bytes(room[:count])
    received = [fd for _, _, data in rights for (fd,) in struct.iter_unpack("=i", data)]
    for number, fd in enumerate(received):
        os.dup2(fd, number)
    for fd in received:
        if fd >= len(received):
            os.close(fd)
    control.close()
    become_program(json.loads(message))


def limber_up():
    """Does, while there is time, what the program is going to do first: the
    memory that it touches stops being shared with the zygote, page by page.
    And nobody is to share our random numbers."""
    os.environ.clear()
    os.chdir("/workspace")
    for name in ("random", "numpy.random"):
        if name in sys.modules:
            sys.modules[name].seed()
    json.loads('{"Argv": ["a"], "Env": ["B=c"], "Root": "/"}')
    exec(compile("import sys\nfor i in range(3):\n    print(i, 'x', [i])\n", "<rehearsal>", "exec"), {"__name__": "rehearsal"})
    sys.stdout.flush()
    with open("/dev/null", "rb") as file:
        file.read()


def become_program(program):
    """Runs a file as `python3 file` would, and never returns."""
    path, arguments = program["Argv"][1], program["Argv"][2:]
    os.chdir(program["Root"])
    os.environ.update(entry.split("=", 1) for entry in program["Env"])
    sys.argv[:] = [path, *arguments]
    sys.path[0] = os.path.dirname(path)
    gc.enable()
    code = run(path)
    try:
        threading._shutdown()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            code = code or 120
    os.closerange(0, 3)  # whoever reads the output sees its end
    libc.sigqueue(1, DONE, ctypes.c_void_p(code & 0xFF))
    while True:  # the executor ends it; should it not, init's report of the code stands
        signal.pause()


def run(path):
    """Executes the file as __main__ and returns its exit code."""
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__builtins__ = __builtins__
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    main.__annotations__ = {}
    main.__dict__.setdefault("__cached__", None)
    sys.modules["__main__"] = main
    try:
        with open(path, "rb") as file:
            source = file.read()
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)
        return 0
    except SystemExit as end:
        return exit_code(end)
    except BaseException:
        kind, value, trace = sys.exc_info()
        # The frames above the program's first are ours.
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        value.__traceback__ = trace
        try:
            sys.excepthook(kind, value, trace)
        except BaseException:
            sys.__excepthook__(kind, value, trace)
        if isinstance(value, KeyboardInterrupt):
            interrupt()
        return 1


def exit_code(end):
    code = end.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    try:
        sys.stdout.flush()
        print(code, file=sys.stderr)
    except BaseException:
        pass
    return 1


def interrupt():
    """Ends as the interpreter does when nobody caught the interrupt."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


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
        except BaseException as error:
            left_out["a first plot"] = f"{type(error).__name__}: {error}"
    return left_out


def rehearse():
    """Draws a small plot, so that what a first one loads is there already."""
    import io

    import matplotlib.pyplot as plt
    import pandas

    for _ in range(2):
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
            pid = os.fork()
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
    global constants_of_this_machine
    server = socket.socket(fileno=3)
    message, files, _, _ = socket.recv_fds(server, 1 << 18, 1)
    constants = json.loads(message)
    constants_of_this_machine = constants
    program = bytes.fromhex(constants["filter"])
    instructions = ctypes.create_string_buffer(program)
    prog = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(instructions))
    constants["filter"] = ctypes.create_string_buffer(prog)
    constants["keep"] = instructions
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


try:
    begin()
except (BrokenPipeError, ConnectionResetError):
    os._exit(0)  # the executor is gone
