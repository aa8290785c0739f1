"""How a program is run: as `python3 file` would run it and, if that is asked
for, with the value of its last expression printed as the interactive
interpreter does, and with the plots that it shows left as files.

A sandbox that starts cold executes this file in place of the program's. A
zygote loads it once, and runs it in the sandboxes that it forks. Either way
the program sees nothing of it: not among the modules, in no traceback, on no
stack.
"""

import sys

OWN = frozenset(sys.modules)  # what the interpreter itself imports; a zygote knows better

import _ast
import _frozen_importlib_external
import _functools
import _signal
import _thread
import atexit
import builtins
import ctypes
import gc
import io
import itertools
import opcode
import os
import types

ONLY_AST = 0x400  # what ast.parse asks of compile
NEWEST = []  # name of the module that was imported last before the program
CALLBACKS = [0]  # how many of them a zygote's packages have at the end
EXPECTED = []  # path of a program that has not come yet, and its module


def prepare(path, arguments, alone):
    """Makes the interpreter's own view that of `python3 path arguments`, and
    returns the program's module. Alone says that the folder holds nothing else."""
    sys.argv[:] = [path, *arguments]
    if hasattr(sys, "orig_argv"):  # from 3.10 on
        sys.orig_argv[:] = [sys.orig_argv[0], path, *arguments]
    sys.path[0] = os.path.dirname(path)
    if not alone:
        make_way(sys.path[0])
    first = vars(sys.modules["__main__"])
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    main.__file__ = path
    main.__loader__ = _frozen_importlib_external.SourceFileLoader("__main__", path)
    if "__annotations__" in first:  # until Python 3.13
        main.__annotations__ = {}
    if "__cached__" in first:
        main.__cached__ = None
    sys.modules["__main__"] = main
    NEWEST[:] = [next(reversed(sys.modules))]
    return main


def expect(path):
    """Prepares for a program before it comes: most have this path, no arguments,
    and no other file beside them."""
    EXPECTED[:] = [path, prepare(path, [], True)]


def module_for(path, arguments, alone):
    if EXPECTED and EXPECTED[0] == path and not arguments and alone:
        return EXPECTED[1]
    return prepare(path, arguments, alone)


def make_way(folder):
    """Forgets the modules that the program has files of its own for: those come
    first, unless the interpreter itself has needed a module of that name."""
    names = set()
    for entry in os.listdir(folder or "."):
        name, _, ending = entry.partition(".")
        if name in sys.modules and name not in OWN and name != "__main__":
            if ending == "py" or not ending and os.path.exists(os.path.join(folder, name, "__init__.py")):
                names.add(name)
    if names:
        for name in [name for name in sys.modules if name.partition(".")[0] in names]:
            del sys.modules[name]


def load(path, echo_last, source=None):
    """Compiles a program, whose source is in the file and may be known. The last
    expression, if it is to be echoed, becomes a piece of code of its own, which
    knows the same lines of the same file."""
    if source is None:
        source = read(path)
    if not echo_last:
        return [compile(source, path, "exec", dont_inherit=True)]
    return cut_quickly(source, path) or cut(source, path)


def read(path):
    """Half of the calls that a file object makes."""
    fd, parts = os.open(path, os.O_RDONLY | os.O_CLOEXEC), []
    try:
        while part := os.read(fd, 1 << 13):
            parts.append(part)
    finally:
        os.close(fd)
    return b"".join(parts)


def cut(source, path):
    """Compiles a program with its last expression apart. A tree of all of it
    takes longer than compiling it."""
    tree = compile(source, path, "exec", ONLY_AST, dont_inherit=True)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, _ast.Expr):
        return [compile(tree, path, "exec", dont_inherit=True)]
    before = compile(_ast.Module(tree.body[:-1], tree.type_ignores), path, "exec", dont_inherit=True)
    echo = compile(_ast.Interactive([last]), path, "single", future_flags(tree, before), dont_inherit=True)
    return [before, echo] if tree.body[:-1] else [echo]


LONG = 2000  # bytes; a tree of less is no matter
TRIES = 8


def cut_quickly(source, path):
    """Does what cut does with a tree of the last lines only; None where it
    cannot be sure, and then nothing is lost. Lines behind which a program can
    be cut begin at the left margin. If what is before such a line compiles, it
    is not inside a string, a bracket or a continued line; if what follows is
    one expression, it continues nothing either."""
    lines = source.splitlines(True)
    head = b"".join(lines[:2])
    if len(source) < LONG or b"__future__" in source or b"coding" in head or not head[:1].isascii():
        return None
    at = len(lines)
    for _ in range(TRIES):
        at -= 1
        while at > 0 and (lines[at][:1] in b" \t\f\r\n#)]}" or lines[at][-3:].strip() in (b'"""', b"'''")):
            at -= 1
        text = b"".join(lines[at:])
        if at <= 0 or b"\\" in text:  # an escape may make a warning, which is to come once
            return None
        try:
            tail = compile(b"\n" * at + text, path, "exec", ONLY_AST, dont_inherit=True).body
        except (SyntaxError, ValueError):
            continue
        try:
            return apart(source, lines, at, tail, path)
        except (SyntaxError, ValueError):
            return None
    return None


def apart(source, lines, at, tail, path):
    """Compiles a program whose last lines make a tree by themselves."""
    if len(tail) == 1 and isinstance(tail[0], _ast.Expr):
        before = compile(b"".join(lines[:at]), path, "exec", dont_inherit=True)
        echo = compile(_ast.Interactive(tail), path, "single", dont_inherit=True)
        return [before, echo]
    texts = b'"""' in source or b"'''" in source or lines[at - 1].rstrip(b"\r\n").endswith(b"\\")
    if texts or not tail or isinstance(tail[-1], _ast.Expr):
        return None
    return [compile(source, path, "exec", dont_inherit=True)]


def future_flags(tree, code):
    """What `from __future__ import` has switched on in a piece of code."""
    if not any(isinstance(node, _ast.ImportFrom) and node.module == "__future__" for node in tree.body):
        return 0
    import __future__

    flags = 0
    for name in __future__.all_feature_names:
        flags |= getattr(__future__, name).compiler_flag
    return code.co_flags & flags


def reopen_streams():
    """Makes stdout and stderr anew, as the interpreter makes them for pipes:
    those that a zygote has are made for what it found when it started."""
    ends = os.pipe()
    for number, name in ((1, "stdout"), (2, "stderr")):
        before, kept = getattr(sys, name), os.dup(number)
        os.dup2(ends[1], number)
        raw = open(number, "wb", buffering=0, closefd=False)
        raw.name = f"<{name}>"
        stream = io.TextIOWrapper(raw, before.encoding, before.errors, newline="\n", write_through=True)
        stream.mode = "w"
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
        os.dup2(kept, number)
        os.close(kept)
    for end in ends:
        os.close(end)


def first_traceable():
    """Finds where a code object keeps the number of its first instruction that
    may be seen: frames that stand before it are skipped wherever frames are
    listed. Two pieces of code that differ in that number tell."""
    code = (lambda: None).__code__
    nop = bytes([opcode.opmap["NOP"], 0])
    few, many = (code.replace(co_code=nop * count + code.co_code) for count in (3, 11))
    for offset in range(object.__basicsize__, types.CodeType.__basicsize__, ctypes.sizeof(ctypes.c_int)):
        if [ctypes.c_int.from_address(id(c) + offset).value for c in (few, many)] == [3, 11]:
            return offset
    return None  # then our frames can be seen, and nothing else is different


FIRST_TRACEABLE = first_traceable()


def hide(code):
    """Keeps the frames of a piece of code, running or not, out of every listing."""
    if FIRST_TRACEABLE is not None:
        ctypes.c_int.from_address(id(code) + FIRST_TRACEABLE).value = 1 << 29


def hide_stack():
    """Hides all that runs now. To do it again would only copy memory."""
    if HIDDEN:
        return
    frame, codes = sys._getframe(), []
    while frame is not None:
        codes.append(frame.f_code)
        frame = frame.f_back
    for code in codes:
        hide(code)


HIDDEN = []  # whatever is on the stack of a zygote, once it is


with open(os.path.join(os.path.dirname(__file__), "shown.py"), "rb") as shown:
    exec(compile(shown.read(), __file__, "exec"))
del shown


class LeavePlots:
    """Makes plt.show() leave its figures as plot_1.png, plot_2.png and so on, but for those that
    the program has saved as pictures itself, and Pillow its images as image_1.png and so on."""

    finest = 200  # dots per inch

    def __init__(self):
        self.numbers = {}  # of figures that were shown and are still open
        WhenImported("matplotlib.backend_bases", self.change)
        WhenImported("matplotlib.figure", self.note_saves)
        show_images(self.leave_image)

    def note_saves(self, module):
        note_saves(module)
        hide(module.Figure.savefig.__code__)

    def change(self, module):
        """Changes what a renderer inherits, and what those that are there have
        inherited already."""
        module.FigureManagerBase.show = LeavePlots.Window(self)
        module._Backend.show = self.show
        heirs = [m for name, m in sys.modules.items() if name.startswith("matplotlib.backends.backend_")]
        heirs.append(getattr(sys.modules.get("matplotlib.pyplot"), "_backend_mod", None))
        for heir in heirs:
            if hasattr(heir, "show"):
                heir.show = self.show

    class Window:
        """The method of a figure's manager that shows this figure alone."""

        def __init__(self, plots):
            self.plots = plots

        def __get__(self, manager, owner=None):
            return _functools.partial(self.plots.leave, manager.canvas.figure) if manager is not None else self

    def show(self, *, block=None):
        """As if each figure had a window, which somebody looked at and, if the
        program waited for that, closed."""
        from matplotlib._pylab_helpers import Gcf

        for manager in Gcf.get_all_fig_managers():
            self.leave(manager.canvas.figure)
            if block is not False:
                self.numbers.pop(manager.canvas.figure, None)
                Gcf.destroy(manager)

    def leave(self, figure):
        import matplotlib

        if saved_as(figure) is not None:
            return
        if figure not in self.numbers:
            self.numbers[figure] = free_number("plot", self.numbers.values())
        dpi = matplotlib.rcParams["savefig.dpi"]
        if dpi == "figure":
            dpi = figure.dpi
        figure.savefig(f"plot_{self.numbers[figure]}.png", dpi=min(dpi, self.finest))

    def leave_image(self, image):
        if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"):  # which PNG has
            image = image.convert("RGB")
        image.save(f"image_{free_number('image')}.png")


def free_number(name, others=()):
    """The first number with which no picture of that name is there."""
    number = 1
    while number in others or os.path.lexists(f"{name}_{number}.png"):
        number += 1
    return number


def run(path, arguments, echo_last, show_plots, modules=(), alone=False, source=None):
    """Runs a program up to the end of its file. What it raises reaches the caller."""
    main = module_for(path, arguments, alone)
    EXPECTED.clear()
    if show_plots:
        LeavePlots()
    for name in modules:
        main.__dict__[name] = __import__(name)
    hide_stack()
    for code in load(path, echo_last, source):
        exec(code, main.__dict__)


def prewarm(path):
    """Does what conduct does up to the program's end, with an internal program:
    the memory that it touches stops being shared with the zygote now, and not
    while somebody waits."""
    first = sys.modules["__main__"]
    run(path, ["a"], False, False)
    report(SystemExit())
    flush(0)
    let_go()
    sys.modules["__main__"] = first


def conduct(path, arguments, echo_last, show_plots, modules, alone, source):
    """Runs a program and then does what an interpreter does at its end, but for
    taking itself apart, which takes longer than most programs. Returns the exit
    code."""
    raised = None
    try:
        run(path, arguments, echo_last, show_plots, modules, alone, source)
    except BaseException as error:
        raised = error
    code = 0 if raised is None else report(raised)
    interrupted = type(raised) is KeyboardInterrupt
    raised = None
    try:
        threading = sys.modules.get("threading")
        if threading and (_thread._count() > 0 or threading._threading_atexits or atexit._ncallbacks() > CALLBACKS[0]):
            threading._shutdown()  # which else finds nothing to do, and nobody to notice that it was called
    except BaseException:
        sys.excepthook(*sys.exc_info())
    atexit._run_exitfuncs()
    code = flush(code)
    let_go()
    code = flush(code)
    if interrupted:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        os.kill(os.getpid(), _signal.SIGINT)
    return code & 0xFF


def report(error):
    """Says what ended the program, and returns its exit code."""
    if isinstance(error, SystemExit):
        return exit_code(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:  # which hide cannot hide before 3.11
        trace = trace.tb_next
    error = error.with_traceback(trace)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    hook = getattr(sys, "excepthook", None)
    if hook is None:
        print("sys.excepthook is missing", file=sys.stderr)
        hook = sys.__excepthook__
    failed = None
    try:
        hook(type(error), error, error.__traceback__)
    except BaseException as failure:
        failed = failure
    if isinstance(failed, SystemExit):
        return exit_code(failed)
    if failed is not None:
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(failed), failed, failed.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, error.__traceback__)
    return 1


def exit_code(end):
    code = end.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code if -(1 << 63) <= code < 1 << 63 else -1
    try:
        print(code, file=sys.stderr)
    except BaseException:
        pass
    return 1


def flush(code):
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            code = 120
    return code


def let_go():
    """Frees what the program made, so that what has a __del__ is heard. Modules
    that were there before are not looked at: a look would copy their memory."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)
    if next(reversed(sys.modules), None) != NEWEST[0]:
        forget_modules()
    sys.modules.pop("__main__", None)
    gc.collect()


def forget_modules():
    """Forgets what the program imported of its own."""
    for name in list(itertools.takewhile(lambda name: name != NEWEST[0], reversed(sys.modules))):
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(("/workspace/", "/mnt/data/")):
            del sys.modules[name]


def finish(names):
    """Says that all is there that a program may find in a zygote, whose names
    these are."""
    CALLBACKS[:] = [atexit._ncallbacks()]
    hide_functions(names.values())
    hide_stack()
    HIDDEN[:] = [True]


def hide_functions(objects):
    for function in objects:
        if isinstance(function, types.FunctionType):
            hide(function.__code__)


hide_functions([*globals().values(), *vars(LeavePlots).values(), *vars(WhenImported).values()])

if __name__ == "__main__":
    echo, plots, *modules = sys.argv[1].split(",")
    run(sys.argv[2], sys.argv[3:], echo == "echo", plots == "plots", modules)
