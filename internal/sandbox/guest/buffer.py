"""How a zygote makes a sandbox: out of a request, which lists the system calls
that its first two processes make. They are the executor's, and this only sees
to it that they are made: by machine code, or by Python where there is none.
"""

import _socket
import ctypes
import mmap
import os
import struct

REPORT, CONTROL, LISTENER = 900, 901, 902  # where a sandbox's pipe to the executor, its socket and its filter's listener are placed: above whatever a zygote has open
SETUP_ERROR, INIT_ERROR, MAIN_ERROR, EXIT, OWN_ERROR, WAIT_ERROR = 2, 3, 4, 5, 6, 7  # kinds of reports
CLONE_VM = 0x100
DUMPABLE, CHILD_SUBREAPER = 4, 36  # of prctl

# The layout of the buffer in which a request lies, as spawn/request.go describes it.
FILES, FILTER, FUNCTIONS, OWN_STEPS, ARGV = 0, 128, 160, 176, 192
TOUCH, PYTHON_FIRST, PREWARM_REQUEST, REQUEST, STEPS = 224, 236, 240, 256, 320
SETUP, INIT, MAIN, WAIT, PREPARE, RECEIVED = range(REQUEST, REQUEST + 24, 4)
READY = REQUEST_END = 1 << 18
BARE, RECEIVE, RIGHTS, SERVE, REPLY, MESSAGE = READY + 128, READY + 256, READY + 384, READY + 512, READY + 640, READY + 4096
PIDFD = REPLY + 96
BEFORE = mmap.PAGESIZE  # of the area, for what lies at negative offsets
LONGEST = 1 << 17  # message
MAX_PREFAULTS = 1 << 10  # steps
MAX_PLOTS = 1 << 12  # parts of memory that plots use
PART = struct.Struct("=3Q")
STEP = struct.Struct("=4I6Q")
STEP_LIST = struct.Struct("=QI")

ROOT, PROGRAM = "/workspace", "/workspace/main.py"

libc = ctypes.PyDLL(None, use_errno=True)
fork = getattr(libc, "_Fork", libc.fork)  # without what libraries want done; older ones have the other alone
libc.syscall.restype = ctypes.c_long
libc.syscall.argtypes = [ctypes.c_void_p] * 7


class RequestBuffer:
    """The area of memory in which requests lie, and where things are in it."""

    def __init__(self):
        self.area = new_area(BEFORE + MESSAGE + LONGEST)
        self.memory = memoryview(self.area)[BEFORE:]
        self.numbers = self.memory.cast("i")
        self.address = address_of(self.area) + BEFORE
        self.kept, self.prefaults = [], new_area(MAX_PREFAULTS * STEP.size)  # steps
        self.plots, self.plotted = new_area(MAX_PLOTS * PART.size), 0  # parts, and how many bytes of them
        struct.pack_into("=QQ13s", self.memory, ARGV, self.address + ARGV + 16, 0, b"airlock init")
        rights = struct.Struct("=Qiii")
        one_file = _socket.CMSG_LEN(4), _socket.SOL_SOCKET, _socket.SCM_RIGHTS
        self.put_message(READY, (READY + 72, b"{}"), (READY + 80, rights.pack(*one_file, LISTENER)))
        self.put_message(BARE, (BARE + 72, b"{}"), (BARE + 80, b""))
        self.put_message(RECEIVE, (MESSAGE, bytes(LONGEST)), (RIGHTS, bytes(_socket.CMSG_SPACE(4 * 5))))
        self.put_message(SERVE, (REQUEST, bytes(REQUEST_END - REQUEST)), (FILES - 16, bytes(16 + 4 * 32)))
        self.put_message(REPLY, (REPLY + 72, bytes(4)), (REPLY + 80, rights.pack(*one_file, 0)))

    def put_message(self, place, data, rights):
        """Puts a struct msghdr in place and behind it its only struct iovec. What
        they point to has the size of what is there now."""
        parts = place + 56  # the size of a struct msghdr
        lengths = []
        for at, content in (data, rights):
            lengths.append(len(content))
            if any(content):
                self.memory[at : at + len(content)] = content
        struct.pack_into("=QIxxxxQQQQixxxx", self.memory, place, 0, 0, self.address + parts, 1, self.address + rights[0], lengths[1], 0)
        struct.pack_into("=QQ", self.memory, parts, self.address + data[0], lengths[0])

    def keep_steps(self, place, steps):
        """Has each pid 2 begin with system calls whose arguments are numbers."""
        area = new_area(max(1, len(steps)) * STEP.size)
        area.write(packed(steps))
        STEP_LIST.pack_into(self.memory, place, address_of(area), len(steps))
        self.kept.append(area)

    def read_steps(self, place, file):
        """The same with what another process wrote."""
        view, size = memoryview(self.prefaults), 0
        while count := os.readv(file, [view[size:]]):
            size += count
        STEP_LIST.pack_into(self.memory, place, address_of(self.prefaults), size // STEP.size)
        return size

    def read_plots(self, file):
        view = memoryview(self.plots)
        while count := os.readv(file, [view[self.plotted :]]):
            self.plotted += count
        return self.plotted

    def touch_plots(self, madvise):
        """Asks for the memory that plots use. What cannot be had takes a little longer later."""
        call = libc.syscall
        for start, size, advice in PART.iter_unpack(memoryview(self.plots)[: self.plotted]):
            call(madvise, start, size, advice, 0, 0, 0)

    def receive(self, server):
        """Puts a request and the numbers of its open files in place. Returns how
        many files there are; None at the end."""
        count, rights, _, _ = server.recvmsg_into([self.memory[REQUEST:REQUEST_END]], _socket.CMSG_SPACE(4 * 32))
        if count == 0:
            return None
        at = FILES
        for _, _, data in rights:
            self.memory[at : at + len(data)] = data
            at += len(data)
        return at // 4

    def put_request(self, *numbers):
        struct.pack_into("=6I", self.memory, REQUEST, *numbers)

    def number(self, place):
        return self.numbers[place // 4]

    def walk(self, first, count, kind):
        """Makes the system calls of a list that lies in the buffer."""
        self.walk_at(self.address + first, count, kind)

    def walk_kept(self, place, kind):
        self.walk_at(*STEP_LIST.unpack_from(self.memory, place), kind)

    def walk_at(self, start, count, kind):
        """Makes a list of system calls. The first that fails ends the process, but
        for those that nobody depends on, which have no kind of error."""
        for index in range(count):
            number, kinds, result, _, *arguments = STEP.unpack(ctypes.string_at(start + index * STEP.size, STEP.size))
            for place in range(6):
                if kinds >> 2 * place & 1:
                    arguments[place] += self.address
                if kinds >> 2 * place & 2:
                    arguments[place] = ctypes.c_int.from_address(arguments[place]).value
            value = libc.syscall(number, *arguments)
            if value < 0 and kind:
                tell(kind, index, ctypes.get_errno())
                os._exit(1)
            if result:
                self.numbers[result // 4] = value

    def wait(self):
        """The last that pid 2 does before there is a program."""
        before = self.number(SETUP) + self.number(INIT) + self.number(MAIN)
        self.walk(STEPS + before * STEP.size, self.number(WAIT), WAIT_ERROR)

    def put_program(self, message, source):
        """Puts in place what is otherwise received."""
        body = struct.pack("=I", len(message)) + message + source
        self.memory[MESSAGE : MESSAGE + len(body)] = body
        self.numbers[PREWARM_REQUEST // 4] = len(body)

    def handed(self, place):
        """The program that was received, and its source, None if that is in its
        file. Most are like most others, and of those only the source came."""
        count = self.number(place)
        if count == 0:
            os._exit(0)  # the executor is gone
        length = self.number(MESSAGE)
        start = MESSAGE + 4 + length
        handed = Handed(str(self.memory[MESSAGE + 4 : start], "utf-8", "surrogateescape")) if length else USUAL
        return handed, bytes(self.memory[start : MESSAGE + count]) or None


class Handed:
    """All that there is to know of a program, as it is sent: flags, its folder, what it
    has imported, how many arguments it has, its path, those, and its environment."""

    def __init__(self, text):
        flags, self.root, modules, count, *rest = text.split("\0")
        self.echo_last, self.show_plots, self.alone, own = (flag == "1" for flag in flags)
        self.modules = modules.split()
        self.argv, self.env = rest[: int(count)], rest[int(count) :] if own else None


USUAL = Handed("\0".join(("0010", ROOT, "", "1", PROGRAM)))


def packed(steps):
    return b"".join(STEP.pack(number, 0, 0, 0, *arguments, *[0] * (6 - len(arguments))) for number, *arguments in steps)


def new_area(size):
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def address_of(area):
    return ctypes.addressof(ctypes.c_char.from_buffer(area))


def tell(kind, index, value):
    os.write(REPORT, struct.pack("=Iii", kind, index, value))


def spawn(area, constants):
    """Makes a sandbox. Returns the pid of its pid 1; 0 in its pid 2 when a program
    has come, or already when Python has something to do before; a negative errno
    if it cannot. Without machine code for it, this does the same, and pid 1 goes
    on in Python."""
    if constants["spawn"] is not None:
        return constants["spawn"](area.address, constants["flags"], -1)
    pid = libc.syscall(constants["clone"], constants["flags"], 0, area.address + PIDFD, 0, 0, 0)
    if pid < 0:
        return -ctypes.get_errno()
    if pid == 0:
        setup, init, main, prepare = (area.number(place) for place in (SETUP, INIT, MAIN, PREPARE))
        area.walk(STEPS, setup, SETUP_ERROR)
        if fork() != 0:
            area.walk(STEPS + setup * STEP.size, init, INIT_ERROR)
            reap()
        area.walk_kept(OWN_STEPS, OWN_ERROR)
        if prepare > 0:
            area.walk_kept(TOUCH, None)
        area.walk(STEPS + (setup + init) * STEP.size, main, MAIN_ERROR)
        if prepare < 2 and not area.number(PYTHON_FIRST):
            area.wait()
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


def find_rseq(number, flags):
    """The call with which libc told the kernel where to say on which processor a
    thread runs; it is to be made again by who is forked by a process that shares
    the zygote's memory. None if there is nothing to make again."""
    try:
        if not flags & CLONE_VM or ctypes.c_uint.in_dll(libc, "__rseq_size").value == 0:
            return None
        offset = ctypes.c_ssize_t.in_dll(libc, "__rseq_offset").value
    except ValueError:
        return None  # this libc has none
    libc.pthread_self.restype = ctypes.c_size_t
    length, signature = 32, 0x53053053
    return number, libc.pthread_self() + offset, length, 0, signature


def load_spawn(code, area):
    """Puts machine code where it can be run, and into the buffer what it needs to
    find there."""
    if not code:
        return None
    pages = new_area(mmap.PAGESIZE)
    pages[: len(code)] = code
    start = address_of(pages)
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        return None
    addresses = (ctypes.cast(function, ctypes.c_void_p).value for function in (fork, libc.__errno_location))
    struct.pack_into("=QQ", area.memory, FUNCTIONS, *addresses)
    function = ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int)(start)
    function.pages = pages  # to keep them
    return function
