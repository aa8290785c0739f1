"""A live interpreter of Python: IPython's shell without a terminal. It asks over
the channel for calls what to do next, and says there what a cell puts out.

A zygote of a live tier loads this file and makes the shell, which its sandboxes
find ready; one that starts cold runs it. What it says is a notice, in the order
in which it says it; what it wants to know is a call:

    stdout, stderr   {"text"} or {"flush"}        display, result  {"data", "metadata", ...}
    error            {"name", "value", "traceback"}   clear        {"wait"}
                     with "exit" and "text": what sys.exit says to a terminal
    comm             {"kind", "content", "metadata", "buffers"}: what a widget says to its page
    next (a call)    how the last order went, to the next one
    input (a call)   {"prompt", "password"} to the text
"""

import sys

HERE = "/opt/airlock/live"
sys.path.append("%s/%d.%d" % (HERE, *sys.version_info[:2]))
INSTALLED = "/workspace/.packages"  # packages of the session, which may come while it runs

import _frozen_importlib_external
import _functools
import _signal
import _thread
import ast
import asyncio
import base64
import builtins
import codecs
import contextlib
import functools
import getpass
import importlib.machinery
import io
import json
import linecache
import os
import re
import reprlib
import select
import shlex
import signal
import struct
import subprocess
import tempfile
import threading
import types
import warnings

TASKS = getattr(asyncio.tasks, "_all_tasks", None)  # of all loops: most often there is none; before Python 3.12
LARGEST = 8 << 20  # bytes of one form of what is displayed
PIECE = 64 << 10  # characters of text in one notice


class Channel:
    """Our end of the channel for calls."""

    def __init__(self):
        numbers = [int(number) for number in os.environ.pop("AIRLOCK_CALLS_FDS").split()]
        self.answers, self.calls = numbers
        for number in numbers:
            os.set_inheritable(number, False)
        self.process = os.getpid()
        self.lock = threading.RLock()
        os.set_blocking(self.answers, False)
        self.received = bytearray()
        self.asked = 0
        self.takers = {}  # what is done with answers, by number
        self.news = threading.Condition()
        self.reading = False  # a thread reads for all
        self.writing = 0  # a signal must not end it in the middle of a message
        self.put_off = False  # an interrupt that came in the meantime
        self.held = b""  # messages that go out with the next one

    def tell(self, name, value):
        self.send('{"name":"%s","input":%s}' % (name, value))

    def ask(self, name, value, take):
        """Asks. What reads the answer gives it to take."""
        with self.lock:
            self.asked += 1
            self.takers[self.asked] = take
            self.send('{"id":%d,"name":"%s","input":%s}' % (self.asked, name, value))
            return self.asked

    def call(self, name, value):
        """Asks, and returns the answer. Of threads that wait one reads for all."""
        answers = []
        number = self.ask(name, value, answers.append)
        try:
            while not answers:
                with self.news:
                    if self.reading:
                        self.news.wait(1)
                        continue
                    self.reading = True
                try:
                    select.select([self.answers], [], [], 1)  # an answer may also be read between two cells
                    self.receive()
                finally:
                    with self.news:
                        self.reading = False
                        self.news.notify_all()
        finally:
            self.takers.pop(number, None)
        return answers[0]

    def __enter__(self):
        """What is done with the channel no interrupt ends in its middle."""
        self.writing += 1
        self.lock.acquire()

    def __exit__(self, kind, error, trace):
        self.lock.release()
        self.writing -= 1
        if kind is None and self.put_off and not self.writing and threading.current_thread() is threading.main_thread():
            self.put_off = False
            raise KeyboardInterrupt

    def hold(self, name, value):
        """Is tell for what is soon followed by more: the reader is woken once."""
        with self:
            self.held += framed('{"name":"%s","input":%s}' % (name, value))

    def flush(self):
        if self.held:
            self.write(b"")

    def send(self, text):
        self.write(framed(text))

    def write(self, message):
        with self:
            rest, self.held = memoryview(self.held + message), b""
            while rest:
                rest = rest[os.write(self.calls, rest) :]

    def receive(self):
        """Reads what is there, and gives away the answers that are whole."""
        with self:
            try:
                data = os.read(self.answers, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                os._exit(0)  # the service is gone
            self.received += data
            while len(self.received) >= 4:
                size = struct.unpack_from(">I", self.received)[0]
                if len(self.received) < 4 + size:
                    break
                message = json.loads(self.received[4 : 4 + size].decode())
                del self.received[: 4 + size]
                self.takers.pop(int(message["id"]), lambda message: None)(message)

    def wait(self, name, value):
        """Is call where there is one thread."""
        answers = []
        self.ask(name, value, answers.append)
        while not answers:
            select.select([self.answers], [], [])
            self.receive()
        return answers[0]


def framed(text):
    body = text.encode()
    return struct.pack(">I", len(body)) + body


class Unheard:
    """Stands for the channel where nobody listens."""

    writing, put_off = 0, False

    def tell(self, name, value):
        pass

    hold = tell

    def flush(self):
        pass


def outlive_term():
    """Makes the interpreter survive SIGTERM, as interactive shells do: `pkill python` is
    meant for the programs of the session. Its children do not inherit this."""

    def survive(number, frame):
        pass

    def in_child():
        if signal.getsignal(signal.SIGTERM) is survive:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, survive)
    os.register_at_fork(after_in_child=in_child)


def run_program(channel, order):
    """Runs a program of any language beside the interpreter, in its place: what it
    writes goes through the pipes of both."""
    folder, environment = os.path.dirname(order["entry"]), {**os.environ, **order.get("env", {})}
    before = signal.signal(signal.SIGINT, lambda number, frame: None)  # the program gets it, too
    try:
        with open(order["entry"], "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(order["code"])
        with tempfile.TemporaryFile(dir="/tmp") as stdin:
            stdin.write(order.get("stdin", "").encode("utf-8", "surrogateescape"))
            stdin.seek(0)
            with subprocess.Popen(order["argv"], stdin=stdin, env=environment, cwd=folder) as process:
                channel.tell("running", "{}")  # from here on an interrupt reaches it
                code = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
        with contextlib.suppress(OSError):
            os.unlink(order["entry"])
    code = code if code >= 0 else 128 - code
    return {"status": "error" if code else "ok", "exit": code}


class Offered:
    """Finds the modules that the host offers to the cell."""

    def __init__(self, driver):
        self.driver = driver

    def find_spec(self, name, path=None, target=None):
        if name in self.driver.modules:
            return importlib.machinery.ModuleSpec(name, self, is_package=any(m.startswith(name + ".") for m in self.driver.modules))

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        source = self.driver.call("module", module.__name__)
        module.call = self.driver.call
        exec(compile(source, "<%s>" % module.__name__, "exec"), module.__dict__)


class Stream(io.TextIOBase):
    """What a cell prints to."""

    encoding, errors = "utf-8", "backslashreplace"

    def __init__(self, driver, name, number):
        self.driver, self.kind, self.number = driver, name, number
        self.name, self.mode = "<%s>" % name, "w"
        self.buffer = Bytes(self)
        self.unfinished = False  # the last line that was written

    def fileno(self):
        return self.number

    def writable(self):
        return True

    def close(self):
        pass  # who closes it closes it for the cells that follow

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not %s" % type(text).__name__)
        self.driver.put(self, text)
        return len(text)

    def flush(self):
        self.driver.flush(self)


def in_one_piece(plain):
    """Is print, but what it prints is one message, not one for each value and space."""

    @functools.wraps(plain)
    def print(*values, sep=" ", end="\n", file=None, flush=False):
        stream = sys.stdout if file is None else file
        if type(stream) is not Stream:
            plain(*values, sep=sep, end=end, file=file, flush=flush)
            return
        text = io.StringIO(newline="")
        try:
            plain(*values, sep=sep, end=end, file=text)
        finally:  # a value that cannot be printed comes after others
            stream.write(text.getvalue())
        if flush:
            stream.flush()

    return print


class Bytes(io.RawIOBase):
    """The same, for bytes."""

    def __init__(self, stream):
        self.stream = stream

    def fileno(self):
        return self.stream.number

    def writable(self):
        return True

    def close(self):
        pass

    def write(self, data):
        data = bytes(data)
        self.stream.write(data.decode("utf-8", "replace"))
        return len(data)

    def flush(self):
        self.stream.flush()


def encoded(value):
    """JSON of a value, whatever it is. It has no word for NaN, which becomes text."""
    try:
        return json.dumps(value, default=reprlib.repr, skipkeys=True, allow_nan=False)
    except ValueError:
        text = json.dumps(value, default=reprlib.repr, skipkeys=True)
        return json.dumps(json.loads(text, parse_constant=str))


def smaller(kind, picture):
    """A picture that is too large to be displayed made smaller, and what is said of that:
    the whole one becomes a file. It is returned as it is if it fits or cannot be read."""
    try:
        data = base64.b64decode(picture) if isinstance(picture, str) else bytes(picture)
        if len(data) <= LARGEST // 4 * 3 - 64:  # which base64 makes longer
            return picture, ""
        from PIL import Image

        image, form = Image.open(io.BytesIO(data)), kind.partition("/")[2]
        small, scale = data, 1.0
        while len(small) > LARGEST // 2:
            scale *= 0.9 * min(1.0, (LARGEST / 2 / len(small)) ** 0.5)
            file = io.BytesIO()
            image.resize((max(1, int(image.width * scale)), max(1, int(image.height * scale)))).save(file, form)
            small = file.getvalue()
        number, name = 1, "picture-1." + form
        while os.path.lexists(name):
            number += 1
            name = "picture-%d.%s" % (number, form)
        with open(name, "xb") as file:
            file.write(data)
    except Exception:
        return picture, ""
    return small, "[a picture of %d bytes was made smaller; the whole one is the file %s]" % (len(data), name)


def bundle(data, metadata):
    """The forms in which something is displayed, as JSON, without those that are
    too long, which are said."""
    forms, left_out = {}, []
    for kind, value in data.items():
        if kind in ("image/png", "image/jpeg") and len(value) > LARGEST // 4 * 3:
            value, note = smaller(kind, value)
            if note:
                print(note, file=sys.stderr)
        if isinstance(value, (bytes, bytearray, memoryview)):
            value = base64.b64encode(value).decode()
        try:
            text = encoded(value)
        except (TypeError, ValueError, RecursionError) as error:
            left_out.append("%s: %s" % (kind, error))
            continue
        if len(text) > LARGEST:
            left_out.append("%s: %d bytes, at most %d are shown" % (kind, len(text), LARGEST))
            if kind != "text/plain":
                continue
            text = encoded(str(value)[: LARGEST // 8] + "...")
        forms[str(kind)] = text
    parts = ",".join("%s:%s" % (json.dumps(kind), text) for kind, text in forms.items())
    for note in left_out:
        print("[left out: %s]" % note, file=sys.stderr)
    try:
        return parts, encoded(metadata or {})
    except (TypeError, ValueError, RecursionError):
        return parts, "{}"


def own_frames(error, trace, seen):
    """Leaves the frames of this file out of a traceback, and out of those of the
    errors before it: an interrupt is raised in here, and so is the end of input."""
    if error is None or id(error) in seen:
        return trace
    seen.add(id(error))
    steps = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename != own_frames.__code__.co_filename:
            steps.append(trace)
        trace = trace.tb_next
    for step in reversed(steps):
        step.tb_next, trace = trace, step
    error.__traceback__ = trace
    for before in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        if before is not None:
            own_frames(before, before.__traceback__, seen)
    return trace


with open(os.path.join(os.path.dirname(__file__), "shown.py"), "rb") as shown:
    exec(compile(shown.read(), __file__, "exec"))
del shown


def exit_status(end):
    """Is what Python makes of a SystemExit: the exit code, and what it prints to stderr."""
    code = end.code
    if code is None:
        return 0, ""
    if isinstance(code, int):
        return (code if -(1 << 63) <= code < 1 << 63 else -1) & 0xFF, ""
    try:
        return 1, "%s\n" % (code,)
    except BaseException:
        return 1, ""


def without_advice(plain):
    """Is warn, but says nothing of how to leave a terminal."""

    def warn(message, category=None, stacklevel=1, **named):
        if not str(message).startswith("To exit:"):
            plain(message, category, stacklevel + 1, **named)

    return warn


def if_installed(shell):
    """Returns print for %pip and its like, whose one sentence is about what was installed."""

    def say(text):
        if shell.user_ns.get("_exit_code") == 0:
            print(text)

    return say


def draw_quickly():
    """Has figures compressed a little less: a third of the time of a small figure is
    its compression. %config InlineBackend.print_figure_kwargs says otherwise. The
    metadata of a figure that was saved says as what: who shows files need not show it
    twice."""
    from IPython.core import pylabtools

    plain = pylabtools.print_figure

    def print_figure(fig, fmt="png", **named):
        if fmt in ("png", "retina"):
            named.setdefault("pil_kwargs", {"compress_level": 1})
        saved = saved_as(fig) if fmt == "png" and named.get("base64") else None
        data = plain(fig, fmt, **named)
        return (data, {"saved": saved}) if data and saved else data

    pylabtools.print_figure = print_figure


def show_image(image):
    from IPython.display import display

    display(image)


MOST_ROWS, MOST_COLUMNS, MOST_VALUES, MOST_TEXT = 10_000, 200, 100_000, 1 << 20
LONGEST = 500  # characters of one value
TABLE = "application/vnd.airlock.table+json"


with open(os.path.join(os.path.dirname(__file__), "frames.py"), "rb") as of_frames:
    FRAMES = of_frames.read()
del of_frames


@functools.cache
def frames():
    """The frames that were displayed. What has to do with them is compiled with the first."""
    names = globals()
    exec(compile(FRAMES, __file__, "exec"), names)
    return names["Frames"]()


def table(frame):
    """A data frame for a page; None: it is shown as it shows itself."""
    try:
        kept = frames()
        return displayed(kept, frame)  # of FRAMES
    except Exception:  # of a kind of frame that has less than pandas'
        return None


def table_of_array(array):
    """The same for an array of rows and columns that would leave some of them out in its own words."""
    try:
        if array.ndim != 2 or array.size <= sys.modules["numpy"].get_printoptions()["threshold"] or array.dtype.names:
            return None
        import pandas

        return table(pandas.DataFrame(array))
    except Exception:
        return None


def show_tables(display_formatter):
    """Has the shell show data frames for pages, too."""
    from IPython.core.formatters import BaseFormatter
    from traitlets import ObjectName, Type, Unicode

    class Table(BaseFormatter):
        format_type = Unicode(TABLE)
        print_method = ObjectName("_repr_airlock_table_")
        _return_type = Type(dict)

    made = display_formatter.formatters[TABLE] = Table(parent=display_formatter)
    for module, kind in (  # until pandas 3, and since
        ("pandas.core.frame", "DataFrame"), ("pandas", "DataFrame"), ("pandas.core.series", "Series"), ("pandas", "Series"),
        ("polars.dataframe.frame", "DataFrame"),
    ):
        made.for_type_by_name(module, kind, table)
    made.for_type_by_name("numpy", "ndarray", table_of_array)
    display_formatter.active_types = list(display_formatter.formatters)


class Kernel:
    """What widgets take for the kernel: they ask it for the request that runs."""

    def __init__(self, driver):
        self.driver = driver

    def get_parent(self, channel=None):
        return {"header": {"msg_id": self.driver.parent}} if self.driver.parent else {}


def show_plots(module):
    """Has plotly's figures put out their data, which a page draws. Of nbformat, which need not be installed, plotly
    asks only the version, to warn of old notebooks. What a program or PLOTLY_RENDERER chooses goes before."""
    if not module.nbformat:
        module.nbformat = types.SimpleNamespace(__version__="5.0")
    if not module.env_renderer and "plotly_mimetype" in module.renderers:
        module.renderers.default = "plotly_mimetype"


def show_charts(module):
    """Has Altair's charts put out their data, too, which a page draws: their HTML draws only with scripts from elsewhere.
    What a program enables goes before."""
    renderers = module.renderers
    if renderers.active != "default":
        return
    html, form = renderers.get(), f"application/vnd.vegalite.{module.SCHEMA_VERSION.split('.')[0]}+json"

    def both(spec, **options):
        made = html(spec, **options)
        return ({form: spec, **made[0]}, made[1]) if isinstance(made, tuple) else {form: spec, **made}

    renderers.register("airlock", both)
    renderers.enable("airlock")


def join_comms(driver, module):
    """Has comms, which widgets are made of, say over our channel what they say to their page."""
    kernel = Kernel(driver)
    manager = driver.comms = module.CommManager()

    class Comm(module.BaseComm):
        def __init__(self, *args, **named):
            self.kernel = kernel
            super().__init__(*args, **named)

        def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
            content = {"comm_id": self.comm_id, "data": {} if data is None else data, **keys}
            driver.publish(msg_type, content, metadata or {}, buffers or ())

    module.create_comm = Comm
    module.get_comm_manager = lambda: manager


MOST_MARKS = 256


class Marks:
    """What tells one state of the files in a folder from another, as the executor does.
    It is None where that has to look itself: there are many, or something else than files."""

    def __init__(self, folder, listed=os.scandir, stat=os.stat):  # whatever a cell makes of those
        self.folder, self.listed, self.stat = folder, listed, stat
        self.known = self.look()

    def changed(self):
        """Reports whether something is other than at the last look. A file is made, moved
        or removed in a folder, which is other then."""
        if self.same():
            return False
        self.known = self.look()
        return True

    def same(self):
        known = self.known
        try:
            if known is not None:
                for path, mark in known.items():
                    if self.mark(path) != mark:
                        return False
                return True
        except OSError:
            pass
        return False

    def mark(self, path):
        found = self.stat(path, follow_symlinks=False)
        return found.st_ino, found.st_ctime_ns, found.st_size

    def look(self):
        known, folders = {}, [self.folder]
        try:
            while folders:
                folder = folders.pop()
                known[folder] = self.mark(folder)
                with self.listed(folder) as entries:
                    for entry in entries:
                        if len(known) + len(folders) >= MOST_MARKS:
                            return None
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        elif entry.is_file(follow_symlinks=False):
                            known[entry.path] = self.mark(entry.path)
                        else:
                            return None
        except OSError:
            return None
        return known


class Plain:
    """Knows what IPython makes of code that has nothing of IPython's in it, and of a number
    or a string, without its tokenizer and twelve formatters: half of the time of a small
    cell. It does not know where somebody has told those to do something else."""

    # Magics, commands, help and prompts, and what splitlines takes for the end of a line.
    SPECIAL = re.compile(r"[%!?\r\v\f\x1c-\x1e\x85\u2028\u2029]|>>>|\.\.\.|In \[|^\s*[,;/]", re.MULTILINE)
    FIRST = re.compile(r"[\w.*]*")  # what a magic without its % is looked for by
    KINDS = frozenset((int, float, bool, str))

    def __init__(self, shell):
        from IPython.core.autocall import IPyAutocall
        from IPython.core.macro import Macro

        self.shell, self.display = shell, shell.display_formatter
        self.calls = Macro, IPyAutocall
        self.transforms = self.all_transforms()
        self.formatters = dict(self.display.formatters)
        self.text = self.formatters["text/plain"]
        self.others = [f for f in self.formatters.values() if f is not self.text]
        self.others += [self.display.mimebundle_formatter, self.display.ipython_display_formatter]
        for formatter in (self.text, *self.others):  # a trait is there when it is first asked for
            formatter.type_printers, formatter.singleton_printers, formatter.deferred_printers
        self.text.pprint, self.text.enabled, self.text.float_format, self.display.formatters
        self.printers = {kind: self.text.type_printers.get(kind) for kind in self.KINDS}
        self.singletons = dict(self.text.singleton_printers)
        self.float_format = self.text.float_format
        self.seen = None  # of the others' tables, when they were last looked through

    def all_transforms(self):
        manager, before = self.shell.input_transformer_manager, self.shell.prefilter_manager
        return [
            *manager.cleanup_transforms, None, *manager.line_transforms, None, *manager.token_transformers, None,
            *before.checkers, None, *before.transformers, None, *self.shell.input_transformers_post,
        ]

    def is_python(self, code):
        """Reports whether the code stays as it is, but for a newline at its end."""
        if not code or code[0].isspace() or self.SPECIAL.search(code) or self.all_transforms() != self.transforms:
            return False
        if "\n" in code.rstrip("\n"):
            return True
        first = self.FIRST.match(code)[0]
        return not (
            self.shell.autocall or self.shell.find_magic(first) or isinstance(self.shell.user_ns.get(first), self.calls)
        )

    def form(self, value):
        """Is None if it has to be asked for."""
        kind, text = type(value), self.text._trait_values
        if (
            kind not in self.KINDS or self.shell.display_formatter is not self.display
            or self.display._trait_values["formatters"] != self.formatters or not text["pprint"] or not text["enabled"]
            or text["type_printers"].get(kind) is not self.printers[kind]
            or text["singleton_printers"] != self.singletons or text["float_format"] != self.float_format or self.told()
        ):
            return None
        try:
            form = repr(value)
        except ValueError:  # an integer of more digits than are shown
            return None
        return form if len(form) <= LARGEST // 8 else None

    def told(self):
        """Reports whether another formatter was told about one of the kinds. What is added to
        a table is its last entry."""
        tables = [
            formatter._trait_values[name] for formatter in self.others
            for name in ("type_printers", "singleton_printers", "deferred_printers")
        ]
        seen = [(table, len(table), next(reversed(table), None)) for table in tables]
        if seen == self.seen:
            return False
        kinds = {base for kind in self.KINDS for base in kind.__mro__}
        for types, singletons, deferred in zip(*[iter(tables)] * 3):
            if singletons or not kinds.isdisjoint(types) or any(module == "builtins" for module, _ in deferred):
                return True
        self.seen = seen
        return False


INTERRUPT = compile("raise KeyboardInterrupt", own_frames.__code__.co_filename, "exec")


# A statement of one line with none of these is not made of others: an expression in it is
# shown if it is all of it.
COMPOUND = re.compile(r"[\n;@:]")


def statement(cell, name, flags):
    """Compiles a cell that is one statement, as IPython does; None: it is something else."""
    if "await" in cell or "async" in cell:
        return None
    try:
        if not COMPOUND.search(cell, 0, len(cell) - 1):
            return compile(cell, name, "single", flags, True)
        body = compile(cell, name, "exec", flags | ast.PyCF_ONLY_AST, True).body
        if len(body) != 1:
            return None
        if type(body[0]) is ast.Expr:
            return compile(ast.Interactive(body), name, "single", flags, True)
        return compile(ast.Module(body, []), name, "exec", flags, True)
    except Exception:  # IPython says what is wrong with it
        return None


async def resumed(coroutine, awaited):
    """Is the rest of a coroutine that has begun, and awaits something."""
    return await Resumed(coroutine, awaited)


class Resumed:
    def __init__(self, coroutine, awaited):
        self.coroutine, self.awaited = coroutine, awaited

    def __await__(self):
        awaited = self.awaited
        while True:
            try:
                sent = yield awaited
            except BaseException as error:
                step, value = self.coroutine.throw, error
            else:
                step, value = self.coroutine.send, sent
            try:
                awaited = step(value)
            except StopIteration as end:
                return end.value


def unobserve(thing, *names):
    """Makes plain attributes of traits that nobody observes. A cell asks for them a hundred
    times, and to validate them was most of its work."""
    kind, values = type(thing), {name: getattr(thing, name) for name in names}
    thing.__class__ = type(kind)(kind.__name__, (kind,), {"__module__": kind.__module__, **dict.fromkeys(names)})
    vars(thing).update(values)


def make_shell(driver):
    """Makes IPython's shell."""
    from IPython.core.compilerop import CachingCompiler
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.history import HistoryManager
    from IPython.core import interactiveshell
    from IPython.core.autocall import ExitAutocall
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell
    from IPython.core.completer import Completer, IPCompleter
    from IPython.core.magics import packaging
    from traitlets import Type, default
    from traitlets.config import Config

    class Hook(DisplayHook):
        def write_output_prompt(self):
            pass

        def write_format_data(self, format_dict, md_dict=None):
            data, metadata = bundle(format_dict, md_dict)
            driver.hold("result", '{"data":{%s},"metadata":%s}' % (data, metadata))

        def __call__(self, result=None):
            text = plain.form(result)
            if text is None:
                super().__call__(result)
                return
            self.check_for_underscore()
            if not self.quiet():
                self.update_user_ns(result)
                self.fill_exec_result(result)
                driver.hold("result", '{"data":{"text/plain":%s},"metadata":{}}' % json.dumps(text))
                self.log_output({"text/plain": text})

        def quiet(self):
            inputs = self.shell.history_manager.input_hist_parsed
            return bool(inputs) and ";" in inputs[-1] and super().quiet()  # which reads its tokens

        def log_output(self, format_dict):
            if "text/plain" in format_dict:  # no other output is remembered
                if self.shell.logger.log_output:
                    self.shell.logger.log_write(format_dict["text/plain"], "output")
                self.shell.history_manager.output_hist_reprs[self.prompt_count] = format_dict["text/plain"]

        def finish_displayhook(self):
            self._is_active = False

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **_):
            name = (transient or {}).get("display_id")
            data, metadata = bundle(data, metadata)
            driver.tell("display", '{"data":{%s},"metadata":%s,"display_id":%s,"update":%s}' % (
                data, metadata, json.dumps(None if name is None else str(name)), json.dumps(bool(update))))

        def clear_output(self, wait=False):
            driver.tell("clear", json.dumps({"wait": bool(wait)}))

    class Leave(ExitAutocall):
        """Is exit and quit, which a script calls with an exit code."""

        def __call__(self, code=None):
            if code is None:
                self._ip.ask_exit()
            if code is not None or driver.leaving:
                raise SystemExit(code)

    class Compiler(CachingCompiler):
        def get_code_name(self, raw_code, transformed_code, number):
            return "<ipython-input-%d-%012x>" % (number, hash(raw_code) & 0xFFFFFFFFFFFF)

    class Shell(InteractiveShell):
        compiler_class = Type(Compiler)
        displayhook_class = Type(Hook)
        display_pub_class = Type(Publisher)

        def transform_cell(self, raw_cell):
            if plain.is_python(raw_cell):
                self._last_input_line = raw_cell.rstrip("\n")
                return raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"
            return super().transform_cell(raw_cell)

        async def run_cell_async(self, raw_cell, store_history=False, silent=False, *, transformed_cell, **named):
            """Runs a cell that is one statement of plain Python with less around it."""
            code = None
            if (
                store_history and transformed_cell.startswith(raw_cell) and named.get("preprocessing_exc_tuple") is None
                and not self.ast_transformers and self.ast_node_interactivity == "last_expr" and not self.logger.log_active
            ):
                name = self.compile.get_code_name(raw_cell, transformed_cell, self.execution_count)
                code = statement(transformed_cell, name, self.compile.flags)
            if code is None:
                return await super().run_cell_async(raw_cell, store_history, silent, transformed_cell=transformed_cell, **named)
            result = ExecutionResult(ExecutionInfo(raw_cell, True, False, True, None, transformed_cell=transformed_cell))
            count = result.execution_count = self.execution_count
            self.execution_count = count + 1
            self.events.trigger("pre_execute")
            self.events.trigger("pre_run_cell", result.info)
            self.history_manager.store_inputs(count, transformed_cell, raw_cell)
            self.compile.cache(transformed_cell, count, raw_code=raw_cell)
            with self.builtin_trap, self.display_trap:
                self.displayhook.exec_result = result
                self.last_execution_succeeded = not await self.run_code(code, result)
                self.last_execution_result = result
                self.displayhook.exec_result = None
            if result.error_in_exec:
                self.history_manager.exceptions[count] = self._format_exception_for_storage(result.error_in_exec)
            return result

        async def run_code(self, code_obj, result=None, *, async_=False):
            driver.preparing = False
            if driver.late:
                driver.late, code_obj, async_ = False, INTERRUPT, False
            return await super().run_code(code_obj, result, async_=async_)

        def _get_exc_info(self, exc_tuple=None):
            kind, error, trace = super()._get_exc_info(exc_tuple)
            return kind, error, own_frames(error, trace, set())

        def _showtraceback(self, etype, evalue, stb):
            driver.failed(etype, evalue, stb)

        def ask_exit(self):
            driver.leaving = True

        @default("exiter")
        def leave(self):
            return Leave(self)

        def enable_gui(self, gui=None):
            pass  # there is none; %matplotlib asks for it

        def init_sys_modules(self):
            pass  # a zygote's own module stays; see Driver.begin

        def system(self, command):
            """Runs a command. Its output comes in its order among the cell's."""
            with subprocess.Popen(
                self.var_expand(command, depth=1), shell=True, executable="/bin/bash",
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            ) as process:
                decoder = codecs.getincrementaldecoder("utf-8")("replace")
                try:
                    while data := os.read(process.stdout.fileno(), 1 << 16):
                        sys.stdout.write(decoder.decode(data))
                except KeyboardInterrupt:
                    process.terminate()
                    raise
            code = process.returncode  # of a shell whose command was killed: 128 and the signal
            self.user_ns["_exit_code"] = 128 - code if code > 128 else code

        system_piped = system_raw = system

    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryAccessor.enabled = False
    config.Completer.use_jedi = False
    config.IPCompleter.use_jedi = False
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.enable_tip = False
    config.InteractiveShell.separate_in = ""
    draw_quickly()
    interactiveshell.warn = without_advice(interactiveshell.warn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shell = Shell.instance(config=config, ipython_dir="/tmp/.ipython")  # not among the program's files
    packaging.print = if_installed(shell)
    show_tables(shell.display_formatter)
    unobserve(
        shell, "execution_count", "history_manager", "builtin_trap", "display_trap", "display_formatter", "payload_manager",
        "magics_manager", "input_transformer_manager", "prefilter_manager", "last_execution_succeeded", "last_execution_result",
    )
    unobserve(shell.displayhook, "shell", "exec_result")
    unobserve(shell.display_trap, "hook")
    unobserve(shell.payload_manager, "_payload")
    unobserve(
        shell.history_manager, "shell", "input_hist_parsed", "input_hist_raw", "output_hist_reprs", "db_input_cache",
        "_i", "_ii", "_iii", "_i00",
    )
    plain = driver.plain = Plain(shell)
    return shell


class Driver:
    """Runs cells."""

    def __init__(self):
        self.channel = None
        self.process = 0  # whose interpreter it is
        self.streams = {}
        self.modules = ()  # that the host offers to the cell
        self.leaving = False  # exit() was called
        self.running = False  # a cell
        self.begun = False  # the service takes it for running already
        self.early = False  # an interrupt came while none ran
        self.preparing = False  # its code does not run yet, and what runs before it may swallow an interrupt
        self.late = False  # which comes when it does
        self.interrupted = False
        self.error = None  # of the cell: name
        self.exit = None  # its exit code, if it called sys.exit
        self.files = None  # in the workspace
        self.installs = False  # a cell can have pip install something
        self.task = None
        self.parent = None  # the request that runs, if its client listens to comms
        self.comms = None  # the manager of the module comm
        self.unsaid = []  # comms that ended while a message was written
        self.heed = self.on_interrupt
        os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
        self.shell = make_shell(self)
        WhenImported("matplotlib.figure", note_saves)
        WhenImported("comm", functools.partial(join_comms, self))
        WhenImported("plotly.io._renderers", show_plots)
        WhenImported("altair", show_charts)
        show_images(show_image)

    def prewarm(self):
        """Runs cells until what they need is loaded, and the interpreter has adapted
        its code to it; then forgets them. What is forked from here need not."""
        before = sys.modules["__main__"]
        sys.modules["__main__"] = self.shell.user_module
        self.process, self.loop = os.getpid(), asyncio.new_event_loop()
        for _ in range(20):
            self.run_in_vain("1 + 1", "x = [1, 2]\nsum(x) + _", "def f():\n    1 / 0\nf()")
        self.loop.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.modules["__main__"] = before
        self.forget()

    def run_in_vain(self, *cells):
        """Runs cells of which nothing is heard, and nothing stays but memory."""
        self.channel = Unheard()
        for code in cells:
            encoded(self.do_run({"code": code}))
        self.channel = None
        self.shell.history_manager.outputs.clear()
        self.shell.history_manager.exceptions.clear()

    def prepare(self, rehearse):
        """Does what can be done in the process whose interpreter it is, before anybody
        waits for that."""
        self.process = os.getpid()
        self.main_thread = threading.main_thread()
        sys.stdout, sys.stderr = Stream(self, "stdout", 1), Stream(self, "stderr", 2)
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
        self.streams = {"stdout": sys.stdout, "stderr": sys.stderr}
        sys.argv[:] = [""]
        sys.path[0] = ""
        if INSTALLED not in sys.path:
            sys.path.insert(1, INSTALLED)
        sys.modules["__main__"] = self.shell.user_module
        self.shell.builtin_trap.__enter__()  # for good: what it adds it would add and remove with each cell
        builtins.input, builtins.print = self.input, in_one_piece(builtins.print)
        getpass.getpass = self.getpass
        getpass.unix_getpass = getpass.win_getpass = self.getpass
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.free_runners()
        self.loop.set_exception_handler(self.complain)
        signal.signal(signal.SIGINT, self.heed)
        outlive_term()
        sys.meta_path.append(Offered(self))
        if rehearse:
            self.rehearse()

    def rehearse(self):
        """Takes orders, as if they had come, and forgets them: the memory that this touches
        stops being shared with the zygote now, and not while somebody waits."""
        (answers, to_answers), (from_calls, calls) = os.pipe(), os.pipe()
        os.environ["AIRLOCK_CALLS_FDS"] = "%d %d" % (answers, calls)
        os.write(to_answers, framed('{"id":1,"result":{"do":"run","code":"1 + 1","begun":true}}'))
        self.begin()
        report = self.do_run(self.next({}))
        os.write(to_answers, framed('{"id":2,"result":{"do":"wake"}}'))
        self.next(report)
        for end in (answers, to_answers, from_calls, calls):
            os.close(end)
        self.channel = None
        self.forget()

    def forget(self):
        """Leaves nothing of the cells that were run before there was a session."""
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            vars(sys).pop(name, None)
        self.shell.reset(new_session=True)
        self.shell.compile._filename_map.clear()
        linecache.clearcache()

    def begin(self):
        """Is called when somebody waits for the interpreter."""
        self.channel = Channel()
        os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
        for name, value in (("TERM", "xterm-color"), ("PAGER", "cat"), ("GIT_PAGER", "cat")):
            os.environ.setdefault(name, value)  # as ipykernel says it, which forces colours, too
        self.files = Marks(os.getcwd())
        self.installs = "PIP_TARGET" in os.environ

    def free_runners(self):
        """Lets a cell call asyncio.run: the kernel's own loop is blocked meanwhile."""
        ours, plain = self.loop, asyncio.Runner.run

        def run(runner, *args, **named):
            before = asyncio._get_running_loop()
            if before is not ours:
                return plain(runner, *args, **named)
            asyncio._set_running_loop(None)
            try:
                return plain(runner, *args, **named)
            finally:
                asyncio._set_running_loop(before)

        def run_alone(main, *, debug=None, loop_factory=None):
            named = {"debug": debug} if loop_factory is None else {"debug": debug, "loop_factory": loop_factory}
            before = asyncio._get_running_loop()
            if before is ours:
                asyncio._set_running_loop(None)
            try:
                with asyncio.Runner(**named) as runner:
                    return runner.run(main)
            finally:
                asyncio._set_running_loop(before)
                asyncio.set_event_loop(ours)

        asyncio.Runner.run = run
        asyncio.run = run_alone

    # What it says.

    def tell(self, name, value):
        if os.getpid() == self.process:
            self.channel.tell(name, value)

    def hold(self, name, value):
        if os.getpid() == self.process:
            self.channel.hold(name, value)

    def put(self, stream, text):
        if os.getpid() != self.process:  # a child of the cell's, whose words would mix with ours
            os.write(stream.number, text.encode("utf-8", "backslashreplace"))
            return
        for start in range(0, len(text), PIECE):
            self.channel.tell(stream.kind, '{"text":%s}' % json.dumps(text[start : start + PIECE]))
        if text:
            stream.unfinished = text[-1] != "\n"

    def flush(self, stream):
        """Has the part of a line shown that the service waits with."""
        if stream.unfinished:
            stream.unfinished = False
            self.tell(stream.kind, '{"flush":true}')

    def failed(self, kind, error, lines):
        if self.interrupted and issubclass(kind, asyncio.CancelledError):
            kind, error = KeyboardInterrupt, ""
        if isinstance(lines, str):
            lines = lines.splitlines()
        try:
            value = str(error)
        except BaseException:
            value = "<its __str__ failed>"
        self.error, left = kind.__name__, {}
        if isinstance(error, SystemExit):
            self.exit, text = exit_status(error)
            if self.leaving and self.exit == 0:
                return
            left = {"exit": True, "text": text[: LARGEST // 8]}
        traceback = [str(line)[: LARGEST // 64] for line in lines or []][-1000:]
        self.tell("error", encoded({"name": kind.__name__, "value": value[: LARGEST // 8], "traceback": traceback, **left}))

    def publish(self, kind, content, metadata, buffers):
        """Says what a comm says to its page, if one listens."""
        if not self.parent or not self.running:
            return
        if self.channel.writing and kind == "comm_close":  # by its __del__, in the middle of a message
            self.unsaid.append((kind, content, metadata, buffers))
            return
        earlier, self.unsaid = self.unsaid, []
        for message in earlier:
            self.publish(*message)
        text = '{"kind":"%s","content":%s,"metadata":%s,"buffers":%s}' % (kind, encoded(content), encoded(metadata), json.dumps(
            [base64.b64encode(memoryview(buffer).cast("B")).decode() for buffer in buffers]))
        if len(text) > 2 * LARGEST:
            print("[left out: %s of %d bytes, at most %d are passed on]" % (kind, len(text), 2 * LARGEST), file=sys.stderr)
            return
        self.tell("comm", text)

    def complain(self, loop, context):
        error = context.get("exception")
        print("%s%s" % (context.get("message", "a background task failed"), ": %r" % error if error else ""), file=sys.stderr)

    # What it asks.

    def input(self, prompt=""):
        return self.question(prompt, False)

    def getpass(self, prompt="Password: ", stream=None, **_):
        return self.question(prompt, True)

    def question(self, prompt, password):
        if threading.current_thread() is not self.main_thread or os.getpid() != self.process:
            raise EOFError("input() can only be called from the main thread of a cell")
        message = self.channel.call("input", encoded({"prompt": str(prompt), "password": password}))
        if "error" in message:
            raise EOFError(message["error"])
        return message["result"]

    def call(self, name, value):
        """Calls something that the host offers to the cell."""
        if not self.running or os.getpid() != self.process:
            raise RuntimeError("only the process of a running cell can call outside")
        message = self.channel.call("call", encoded({"name": name, "input": value}))
        if "error" in message:
            raise RuntimeError(message["error"])
        return message.get("result")

    def rests(self):
        """Says whether cells have left nothing that goes on: no thread, no task, nothing
        that the loop waits for but its own pipe."""
        loop = self.loop
        return _thread._count() == 0 and not (
            loop.is_closed() or loop._ready or loop._scheduled or loop._signal_handlers
            or len(loop._selector.get_map()) > 1 or (TASKS is None or len(TASKS)) and asyncio.all_tasks(loop)
        )

    def next(self, report):
        """Waits for the next order. The tasks that cells have left go on meanwhile."""
        if self.rests():
            return self.channel.wait("next", encoded(report)).get("result")

        order = self.loop.create_future()

        def arrived(message):
            if not order.done():
                order.set_result(message.get("result"))

        def take(message):
            if threading.current_thread() is self.main_thread:
                arrived(message)
            else:  # one that a cell has left was waiting, too
                self.loop.call_soon_threadsafe(arrived, message)

        self.channel.ask("next", encoded(report), take)
        self.loop.add_reader(self.channel.answers, self.channel.receive)
        self.finish(order)
        self.loop.remove_reader(self.channel.answers)
        return order.result()

    def finish(self, awaited):
        """Runs the loop until something is done, whatever other tasks raise."""
        while not awaited.done():
            try:
                self.loop.run_until_complete(awaited)
            except BaseException as error:
                if awaited.done():
                    break
                if isinstance(error, KeyboardInterrupt):
                    if self.task is awaited:
                        self.task.cancel()
                elif not isinstance(error, (SystemExit, RuntimeError)):
                    sys.excepthook(type(error), error, error.__traceback__)
                if self.loop.is_closed():
                    os._exit(98)

    def on_interrupt(self, number, frame):
        if not self.running or os.getpid() != self.process:
            if os.getpid() != self.process:
                raise KeyboardInterrupt
            self.early = True
            return
        self.interrupted = True
        if self.preparing:
            self.late = True
        elif self.channel.writing:
            self.channel.put_off = True
        elif self.task and asyncio._get_running_loop() is self.loop and asyncio.current_task(self.loop) is None:
            self.task.cancel()
            self.loop.call_soon_threadsafe(lambda: None)
        else:
            raise KeyboardInterrupt

    # What it does.

    def serve(self):
        report = {}
        while not self.leaving:
            order = self.next(report)
            try:
                report = getattr(self, "do_" + order["do"])(order)
            except Exception as error:
                report = {"failed": "%s: %s" % (type(error).__name__, error)}
        self.channel.wait("exit", encoded(report))  # nobody reads what is said after the end

    def do_run(self, order):
        self.error, self.exit, self.interrupted, self.late, self.channel.put_off = None, None, False, False, False
        silent = bool(order.get("silent"))
        self.modules, self.begun = order.get("modules", ()), order.get("begun")
        for name, stream in self.streams.items():
            if getattr(sys, name, None) is None:
                setattr(sys, name, stream)
        if _signal.getsignal(signal.SIGINT) is not self.heed:
            signal.signal(signal.SIGINT, self.heed)
        if sys.path_importer_cache.get(INSTALLED, 0) is None and os.path.isdir(INSTALLED):
            del sys.path_importer_cache[INSTALLED]  # it was not there when something was imported first
        env = order.get("env")
        before = env and swap(env)
        self.parent = order.get("parent")
        if "comm" in order:
            cell = self.hear(order["comm"])
        else:
            cell = self.cell(order["code"], silent, silent or bool(order.get("unrecorded")))
        count, raised = self.follow(cell, order["code"])
        if before:
            swap(before)
        if os.getpid() != self.process:
            os._exit(0)  # the cell forked, and this is the other one
        if raised is not None and self.error is None:
            self.error = type(raised).__name__
        self.shell.history_manager.outputs.clear()
        self.shell.payload_manager.clear_payload()
        return {
            "status": "ok" if self.error is None or self.exit == 0 else "error", "exit": self.exit, "count": count,
            "interrupted": self.interrupted,
            "unchanged": self.files is not None and not self.files.changed(),
        }

    def follow(self, cell, code):
        """Runs a cell to its end. One that awaits is a task of the loop; most do not."""
        if "await" not in code and "async" not in code and not self.loop.is_closed():
            ended, result = self.step(cell)
            if ended:
                if self.loop._ready:  # tasks that it has begun take a first step
                    self.finish(self.loop.create_task(asyncio.sleep(0)))
                return result
            cell = resumed(cell, result)
        self.task = task = self.loop.create_task(cell)
        self.finish(task)
        self.task = None
        if not task.cancelled():
            return task.exception() or task.result()
        self.failed(asyncio.CancelledError, asyncio.CancelledError(), [])
        return self.shell.execution_count - 1, asyncio.CancelledError()

    def step(self, cell):
        """Runs a cell until it awaits something, or to its end, and reports which."""
        asyncio._set_running_loop(self.loop)
        try:
            return False, cell.send(None)
        except StopIteration as end:
            return True, end.value
        except KeyboardInterrupt as error:  # while another error was told
            return True, (self.shell.execution_count - 1, error)
        finally:
            asyncio._set_running_loop(None)

    async def cell(self, code, silent, unrecorded):
        shell, problem, result = self.shell, None, None
        count = shell.execution_count
        try:
            self.preparing = self.running = True
            if not self.begun or self.early:  # it may have been for this one, and is sent again then
                self.early = False
                self.channel.tell("running", '{"count":%d}' % count)
            try:
                transformed = type(shell).transform_cell(shell, code)
            except Exception:
                transformed, problem = code, sys.exc_info()
            try:
                if self.installs:  # an earlier cell may have installed what is imported now
                    importlib.invalidate_caches()
                result = await type(shell).run_cell_async(  # whatever a cell has made of the instance's
                    shell, code, store_history=not unrecorded, silent=silent, transformed_cell=transformed, preprocessing_exc_tuple=problem)
            finally:
                callbacks = shell.events.callbacks["post_execute"]
                if len(callbacks) > 1:  # more than IPython's own: figures are drawn
                    self.channel.flush()
                    # When they are shown and closed pyplot need not draw them once more, for nobody.
                    callbacks.sort(key=lambda callback: getattr(callback, "__name__", "") == "_draw_all_if_interactive")
                shell.events.trigger("post_execute")
                if not silent:
                    shell.events.trigger("post_run_cell", result)
        except (KeyboardInterrupt, asyncio.CancelledError, Exception) as error:
            self.failed(type(error), error, [type(error).__name__])
            return count, error
        finally:
            self.preparing = self.running = False
        return count, result.error_before_exec if result.error_before_exec is not None else result.error_in_exec

    async def hear(self, message):
        """Hands a message of a page to the comm that it is for."""
        count, raised, content = self.shell.execution_count, None, message["content"]
        try:
            self.running = True
            if not self.begun or self.early:
                self.early = False
                self.channel.tell("running", '{"count":%d}' % count)
            if self.comms is not None:
                message["buffers"] = [memoryview(base64.b64decode(buffer)) for buffer in message.get("buffers") or ()]
                getattr(self.comms, message["msg_type"])(None, None, message)
            elif message["msg_type"] == "comm_open":
                self.publish("comm_close", {"comm_id": content["comm_id"], "data": {}}, {}, ())
        except (KeyboardInterrupt, asyncio.CancelledError, SystemExit, Exception) as error:
            raised = error
            self.failed(type(error), error, [type(error).__name__])
        finally:
            self.running = False
        return count, raised

    def do_comm_info(self, order):
        comms = {} if self.comms is None else self.comms.comms
        target = order.get("target")
        return {"comms": {name: {"target_name": comm.target_name} for name, comm in list(comms.items()) if target in (None, "", comm.target_name)}}

    def do_program(self, order):
        return run_program(self.channel, order)

    def do_setup(self, order):
        """Makes the interpreter what its session wants it to be, before its first cell."""
        swap(order.get("env") or {})
        if order.get("dir"):
            os.chdir(order["dir"])
        if order.get("code"):
            names = {"__name__": "setup", "shell": self.shell, "WhenImported": WhenImported}
            exec(compile(order["code"], "<setup>", "exec"), names)
        return {}

    def do_wake(self, order):
        return {}

    def do_reseed(self, order):
        """Is told to what goes on as it was stored: others may do so, too."""
        forget_randomness()
        return {}

    def do_complete(self, order):
        from IPython.core.completer import provisionalcompleter, rectify_completions

        code, cursor = order["code"], order["cursor"]
        with provisionalcompleter():
            found = list(rectify_completions(code, self.shell.Completer.completions(code, cursor)))[:1000]
        if not found:
            return {"matches": [], "start": cursor, "end": cursor}
        return {"matches": [c.text for c in found], "start": found[0].start, "end": found[0].end}

    def do_inspect(self, order):
        from IPython.utils.tokenutil import token_at_cursor

        name = token_at_cursor(order["code"], order["cursor"])
        try:
            data = self.shell.object_inspect_mime(name, detail_level=order.get("detail", 0))
        except KeyError:
            return {"found": False, "data": {}}
        return {"found": True, "data": {kind: text[: LARGEST // 8] for kind, text in data.items()}}

    def do_is_complete(self, order):
        status, indent = self.shell.input_transformer_manager.check_complete(order["code"])
        return {"status": status, "indent": " " * (indent or 0)}

    def do_frame(self, order):
        return frames().ask(order)

    def do_variables(self, order):
        hidden, found = self.shell.user_ns_hidden, []
        for name, value in list(self.shell.user_ns.items()):
            if name.startswith("_") or name in hidden and hidden[name] is value or isinstance(value, type(sys)):
                continue
            found.append(describe(name, value))
        return {"variables": found[:1000]}


class Bash:
    """Runs cells in one shell, which stays. It is an interactive one without a
    terminal: an interrupt then ends what it runs and not the shell."""

    NEXT = "IFS= read -r -d '' -u 9 __cell; { : 5>&1; } 2>/dev/null || exec >&6; { : 5>&2; } 2>/dev/null || exec 2>&7; printf '%d begun\\0' >&8; eval \"$__cell\" <&5\n"
    STATUS = "printf '%d %%s\\0' $? >&8\n"
    START = "PS1= PS2=; set +m +H +o history; unset HISTFILE"
    # The stdin of a cell is at its end, but for the shell's own read, which asks.
    READ = r"""
read() {
    if ! [ /proc/self/fd/0 -ef /proc/self/fd/5 ]; then builtin read "$@"; return; fi
    local __prompt= __silent= __option OPTIND=1 OPTARG
    while getopts :ersa:d:i:n:N:p:t:u: __option; do
        case $__option in
        p) __prompt=$OPTARG ;;
        s) __silent=1 ;;
        u) builtin read "$@"; return ;;
        esac
    done
    printf '0 ask%s %s\0' "$__silent" "$__prompt" >&8
    IFS= builtin read -r -d '' -u 4 __prompt || return
    if [ "${__prompt:0:1}" = - ]; then echo "read: ${__prompt:1}" >&2; return 1; fi
    builtin read "$@" <<< "${__prompt:1}"
}
"""
    READY = "printf '%d ready%d\\0' >&8\n"
    AGAIN = 0.2  # seconds

    def __init__(self):
        self.channel = Channel()
        self.count = 0
        self.number = 0  # of what the shell was last told to run
        self.interrupted = False
        self.said = bytearray()
        self.woken, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self.env = {}  # of the session
        signal.signal(signal.SIGINT, self.on_interrupt)
        outlive_term()
        lines, self.lines = os.pipe()
        cells, self.cells = os.pipe()
        self.ends, ends = os.pipe()
        self.told, self.telling = os.pipe()  # answers to its questions
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.setpgid(0, 0)  # it is interrupted by us alone
            for number, place in ((os.dup(lines), 0), (os.dup(cells), 9), (os.dup(ends), 8)):
                os.dup2(number, place)
            nothing, writer = os.pipe()
            os.dup2(os.dup(self.told), 4)
            os.dup2(nothing, 5)
            os.dup2(1, 6)  # who closes its streams closes them for one cell
            os.dup2(2, 7)  # what an interactive shell says at its start is nobody's business
            os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
            os.closerange(10, 256)
            os.close(3)
            os.execv("/bin/bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])
        for number in (lines, cells, ends):
            os.close(number)
        self.shell = pid
        signal.signal(signal.SIGCHLD, self.on_child)
        self.run(self.START + "; exec 2>&7" + self.READ)
        self.names = set(self.listed("compgen -v"))

    def on_interrupt(self, number, frame):
        self.interrupted = True

    def on_child(self, *_):
        """Ends with the shell, whoever else has its files."""
        try:
            pid, how = os.waitpid(self.shell, os.WNOHANG)
        except ChildProcessError:  # a signal came while this was at it
            return
        if pid:
            os._exit(os.waitstatus_to_exitcode(how) & 0xFF)

    def run(self, code):
        """Runs code to its end, and returns its exit status. An interrupt is passed on
        when the shell has the code, and again until the shell is ready for more: bash
        forgets one during which a child ended, and a child loses one that comes before
        its exec. The lines that report may go with it, so they are sent again as well."""
        self.number += 1
        status = (self.STATUS % self.number).encode()
        unsent = [
            (self.lines, (self.NEXT % self.number).encode() + status),
            (self.cells, code.encode("utf-8", "surrogateescape") + b"\0"),
        ]
        begun, passed, ended = False, 0, None
        while select.select([self.told], [], [], 0)[0]:
            os.read(self.told, 1 << 16)  # an interrupt was faster
        while True:
            patience = self.AGAIN if passed else None
            ready, free, _ = select.select([self.ends, self.woken], [unsent[0][0]] if unsent else [], [], patience)
            if free:
                target, data = unsent.pop(0)
                if data := data[os.write(target, data[:4096]) :]:
                    unsent.insert(0, (target, data))
            if self.woken in ready:
                os.read(self.woken, 64)
            if self.ends in ready:
                for number, word in self.records():
                    if word.startswith(b"ask"):
                        unsent.append((self.telling, self.question(word)))
                    if number != self.number:
                        continue  # said twice
                    if word == b"begun":
                        begun = True
                    elif not word.startswith(b"ready"):
                        ended = int(word) if ended is None else ended
                    # What comes after the last interrupt says that the next cell does not get it.
                    if ended is not None and (not passed or word == b"ready%d" % passed):
                        self.interrupted = False
                        return ended
            if begun and self.interrupted and (not passed or not ready and not free):
                passed += 1
                os.killpg(self.shell, signal.SIGINT)
                unsent.append((self.lines, status + (self.READY % (self.number, passed)).encode()))

    def question(self, word):
        """Asks who runs the cell, and returns what the shell's read makes of it."""
        kind, _, prompt = word.partition(b" ")
        answer = self.channel.wait("input", encoded({"prompt": prompt.decode("utf-8", "replace"), "password": kind != b"ask"}))
        text = "-" + answer["error"] if "error" in answer else "+" + answer["result"]
        return text.replace("\0", "").encode("utf-8", "replace") + b"\0"

    def records(self):
        data = os.read(self.ends, 4096)
        if not data:  # the shell has closed it
            self.on_child()
            select.select([self.woken], [], [])  # also if a signal came just now, which pause would wait for
        *whole, self.said = (self.said + data).split(b"\0")
        for record in whole:
            number, _, word = record.partition(b" ")
            yield int(number), word

    def listed(self, command):
        self.run(command + " >/tmp/.live 2>&1")
        with open("/tmp/.live", encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20).splitlines()

    def ask(self, report):
        return self.channel.wait("next", encoded(report)).get("result")

    def serve(self):
        report = {}
        while True:
            order = self.ask(report)
            try:
                report = getattr(self, "do_" + order["do"])(order)
            except Exception as error:
                report = {"failed": "%s: %s" % (type(error).__name__, error)}

    def do_run(self, order):
        if not order.get("silent") and not order.get("unrecorded"):
            self.count += 1
        if "\0" in order["code"]:
            self.channel.tell("error", encoded({"name": "SyntaxError", "value": "a NUL in the code", "traceback": []}))
            return {"status": "error", "count": self.count}
        self.interrupted = False
        self.channel.tell("running", '{"count":%d}' % self.count)
        env = order.get("env") or {}
        if env:
            self.run(exports(env))
        status = self.run(order["code"])
        if env:
            self.run(exports({name: self.env.get(name) for name in env}))
        if status:
            self.channel.tell("error", encoded({"name": "ExitStatus", "value": str(status), "traceback": []}))
        return {"status": "error" if status else "ok", "exit": status, "count": self.count}

    def do_program(self, order):
        return run_program(self.channel, order)

    def do_setup(self, order):
        self.env = order.get("env") or {}
        self.run(exports(self.env) + "; cd -- " + shlex.quote(order.get("dir") or "."))
        return {}

    def do_wake(self, order):
        return {}

    def do_reseed(self, order):
        self.run("RANDOM=$SRANDOM")
        return {}

    def do_complete(self, order):
        code = order["code"][: order["cursor"]]
        word = code[max(map(code.rfind, " \t\n;|&(<>=")) + 1 :]
        if word.startswith("$"):
            found = ["$" + name for name in self.listed("compgen -v -- " + shlex.quote(word[1:]))]
        else:
            found = self.listed("compgen -A function -abck -f -- " + shlex.quote(word))
        return {"matches": sorted(set(found))[:1000], "start": order["cursor"] - len(word), "end": order["cursor"]}

    def do_inspect(self, order):
        code, cursor = order["code"], order["cursor"]
        while cursor < len(code) and not code[cursor].isspace():
            cursor += 1
        name = (code[:cursor].split() or [""])[-1]
        lines = self.listed("type -- " + shlex.quote(name)) if name else []
        found = bool(lines) and "not found" not in lines[0]
        return {"found": found, "data": {"text/plain": "\n".join(lines)} if found else {}}

    def do_is_complete(self, order):
        try:
            check = subprocess.run(["/bin/bash", "-n", "-c", order["code"]], capture_output=True, text=True, timeout=5)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return {"status": "unknown", "indent": ""}
        if check.returncode == 0:
            return {"status": "complete", "indent": ""}
        return {"status": "incomplete" if "unexpected end of file" in check.stderr or "unexpected EOF" in check.stderr else "invalid", "indent": ""}

    def do_variables(self, order):
        found = []
        for name in self.listed("compgen -v"):
            if name in self.names or name in ("__cell", "_", "BASH_LINENO", "BASH_COMMAND", "PIPESTATUS"):
                continue
            text = "\n".join(self.listed("declare -p " + name))
            flags, _, value = text.removeprefix("declare -").partition(" ")
            kind = "array" if "a" in flags else "map" if "A" in flags else "integer" if "i" in flags else "string"
            found.append({"name": name, "type": kind, "shape": "", "repr": value.partition("=")[2][:200], "size": 0})
        return {"variables": found[:1000]}


def swap(env):
    """Sets names of the environment, None being none, and returns what they were."""
    before = {name: os.environ.get(name) for name in env}
    for name, value in env.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    return before


def exports(env):
    """The same for a shell."""
    return ";".join("unset " + name if value is None else "export %s=%s" % (name, shlex.quote(value)) for name, value in env.items() if name.isidentifier()) or ":"


PLAIN = (int, float, complex, bool, str, bytes, type(None), list, tuple, dict, set, frozenset, range)
SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = 80


def describe(name, value):
    """What is said of a variable without running any code of its own."""
    kind = type(value)
    shape = text = ""
    try:
        if kind in PLAIN:
            text = SHORT.repr(value) if holds_plain(value) else ""
            shape = str(len(value)) if kind in PLAIN[8:] else ""
        elif kind.__module__.partition(".")[0] in ("numpy", "pandas", "PIL", "scipy", "torch", "polars", "xarray"):
            shape = str(getattr(value, "shape", ""))
        size = sys.getsizeof(value) if kind.__module__ in ("builtins", "numpy") else 0
    except BaseException:
        size = 0
    return {"name": name, "type": kind.__qualname__, "shape": shape, "repr": text[:200], "size": size}


def holds_plain(value):
    if isinstance(value, dict):
        return all(type(part) in PLAIN[:7] for pair in list(value.items())[:10] for part in pair)
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(type(part) in PLAIN[:7] for part in list(value)[:10])
    return True


def serve(driver, arguments):
    """Is the interpreter that the arguments name, until there is no more to do."""
    if arguments == ["bash"]:
        Bash().serve()
        return
    if driver is None:
        driver = Driver()
        driver.prepare(False)
    driver.begin()
    driver.serve()


if __name__ == "__main__":
    serve(None, sys.argv[1:])
