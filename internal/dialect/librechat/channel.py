"""What the drivers share: the channel over which a program's calls leave the
sandbox, the request that tells what to run, and the program's part of a
traceback."""

import fcntl
import json
import os
import stat
import struct
import termios
import time
import types

HERE = "<tools>"
LARGEST = 4 << 20  # bytes of calls in one message
MESSAGES = 16  # that the host holds at a time: it reads no other until one is answered
TOO_MUCH = "The inputs of the tools that are called at once have more than 64 MiB"


class Channel:
    """Sends calls, many in one message, and takes their answers apart."""

    def __init__(self):
        numbers = [int(number) for number in os.environ.pop("AIRLOCK_CALLS_FDS").split()]
        if not all(stat.S_ISFIFO(os.fstat(number).st_mode) for number in numbers):
            raise RuntimeError("The channel for tool calls is not where it should be")
        self.answers, self.calls = map(os.dup, numbers)  # which no process of the program inherits
        for number in numbers:
            os.close(number)
        os.set_blocking(self.answers, False)
        self.received = bytearray()
        self.sent = 0

    def send(self, calls, more):
        """Sends calls, pairs of a tool's name and its input as JSON, and returns
        the message's number. More says that others follow that belong to them."""
        self.sent += 1
        listed = ",".join('{"name":%s,"input":%s}' % (json.dumps(name), text) for name, text in calls)
        body = '{"id":%d,"name":"calls","input":{"calls":[%s],"more":%s}}' % (self.sent, listed, "true" if more else "false")
        body = body.encode()
        rest = memoryview(struct.pack(">I", len(body)) + body)
        while rest:
            rest = rest[os.write(self.calls, rest):]
        return self.sent

    def receive(self):
        """Yields what has arrived: (number, answers) of whole messages, and
        (None, None) once the channel is closed."""
        while True:
            try:
                data = os.read(self.answers, 1 << 16)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                yield None, None
                return
            self.received += data
        while len(self.received) >= 4:
            size = struct.unpack(">I", self.received[:4])[0]
            if len(self.received) < 4 + size:
                return
            message = json.loads(self.received[4:4 + size])
            del self.received[:4 + size]
            yield int(message["id"]), message.get("result")


def groups(calls, size, waiting):
    """Cuts a list of calls into parts that fit into a message each. There are none
    if the host, which holds those that wait for an answer, would not read all of
    them: it gives calls out only when it has all that belong together."""
    parts = list(cut(calls, size))
    return parts if len(parts) == 1 or len(parts) + waiting <= MESSAGES else []


def cut(calls, size):
    part, total = [], 0
    for call in calls:
        if part and total + size(call) > LARGEST:
            yield part
            part, total = [], 0
        part.append(call)
        total += size(call)
    if part:
        yield part


def let_out():
    """Returns when what the program has printed has been read, or soon after."""
    for number in (1, 2):
        for _ in range(20):
            try:
                waiting = struct.unpack("i", fcntl.ioctl(number, termios.FIONREAD, b"\0\0\0\0"))[0]
            except OSError:
                break
            if not waiting:
                break
            time.sleep(0.0002)


def read_request():
    """Reads what to run, one line, and what follows it. Then the program's own
    stdin takes its place."""
    parts = []
    while data := os.read(0, 1 << 20):
        parts.append(data)
    reading, writing = os.pipe()
    os.write(writing, b"\n")
    os.close(writing)
    os.dup2(reading, 0)
    os.close(reading)
    request, _, rest = b"".join(parts).partition(b"\n")
    return json.loads(request), rest


def put_source(path, source):
    """Puts the program where its language and its tracebacks look for it."""
    with open(path, "wb") as file:
        file.write(source.encode("utf-8", "surrogatepass"))


def own_frames(error, path, seen):
    """Leaves the program's part of a traceback."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    frames = []
    step = error.__traceback__
    while step is not None:
        frames.append(step)
        step = step.tb_next
    if any(f.tb_frame.f_code.co_filename == path for f in frames):
        while frames[0].tb_frame.f_code.co_filename != path:
            frames.pop(0)
    chain = None
    for f in reversed(frames):
        if f.tb_frame.f_code.co_filename != HERE:
            chain = types.TracebackType(chain, f.tb_frame, f.tb_lasti, f.tb_lineno)
    error.__traceback__ = chain
    own_frames(error.__cause__, path, seen)
    own_frames(error.__context__, path, seen)
    for inner in getattr(error, "exceptions", ()):
        own_frames(inner, path, seen)
