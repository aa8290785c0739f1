"""Runs a Python program whose tools are coroutines. What it awaits goes out as
a call; what is awaited together goes out together, when the program has nothing
left to do but wait. The program sees none of this: its lines have their own
numbers, and its names are alone in their module."""

import ast
import asyncio
import importlib
import inspect
import json
import keyword
import linecache
import re
import selectors
import sys
import threading
import types

PATIENCE = 1000  # looks of a loop that does not wait


class ToolExecutionError(Exception):
    """A tool that the program called has failed."""


ToolExecutionError.__module__ = "__main__"


class Calls:
    """The calls of a program, from a tool's function to its answer."""

    def __init__(self):
        self.channel = Channel()
        self.lock = threading.Lock()
        self.unsent = []  # (name, input, future)
        self.waiting = {}  # by number of the message: futures
        self.closed = False

    async def call(self, name, values):
        text = json.dumps(values, allow_nan=False, default=plain)
        if len(text) > LARGEST:
            raise ToolExecutionError("The input of %s is too large" % name)
        future = asyncio.get_running_loop().create_future()
        with self.lock:
            self.unsent.append((name, text, future))
        return await future

    def flush(self):
        """Sends the calls of a loop that is about to wait. Returns whether there is
        an answer already: then the loop must not wait."""
        loop = asyncio._get_running_loop()
        if loop is None or not self.unsent:
            return False
        with self.lock:
            calls = [call for call in self.unsent if call[2].get_loop() is loop]
            self.unsent = [call for call in self.unsent if call[2].get_loop() is not loop]
            calls = [call for call in calls if not call[2].done()]
            if not calls:
                return False
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except (AttributeError, OSError, ValueError):
                    pass
            let_out()
            rest = len(calls)
            parts = groups(calls, lambda call: len(call[1]), len(self.waiting))
            if not parts:
                for call in calls:
                    settle(call[2], {"error": TOO_MUCH})
                return True
            for part in parts:
                rest -= len(part)
                try:
                    number = self.channel.send([call[:2] for call in part], rest > 0)
                except OSError:
                    self.closed = True
                    number = None
                if self.closed:
                    for call in part:
                        settle(call[2], {"error": "Execution failed or timed out"})
                    continue
                self.waiting[number] = [call[2] for call in part]
            if self.waiting:
                loop.add_reader(self.channel.answers, self.receive, loop)
            return self.closed

    def receive(self, loop):
        with self.lock:
            for number, answers in self.channel.receive():
                if number is None:
                    self.closed = True
                    for futures in self.waiting.values():
                        for future in futures:
                            settle(future, {"error": "Execution failed or timed out"})
                    self.waiting.clear()
                    break
                futures = self.waiting.pop(number, [])
                if not isinstance(answers, list) or len(answers) != len(futures):
                    answers = [{"error": "Execution failed or timed out"}] * len(futures)
                for future, answer in zip(futures, answers):
                    settle(future, answer)
            if not any(f.get_loop() is loop for futures in self.waiting.values() for f in futures):
                loop.remove_reader(self.channel.answers)


def settle(future, answer):
    def give():
        if future.done():
            return
        if "error" in answer:
            future.set_exception(ToolExecutionError(answer["error"]))
        else:
            future.set_result(answer.get("result"))

    loop = future.get_loop()
    if loop is asyncio._get_running_loop():
        give()
    elif not loop.is_closed():
        loop.call_soon_threadsafe(give)


def plain(value):
    """What JSON makes of numbers and arrays that are not Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError("Object of type %s is not JSON serializable" % type(value).__name__)


def identifier(name):
    name = re.sub(r"[^0-9A-Za-z_]", "", re.sub(r"[-\s]", "_", name))
    if not name or name[0].isdigit():
        name = "_" + name
    return name + "_" if keyword.iskeyword(name) else name


def function(calls, tool):
    """Makes a tool's function: its parameters are those of the tool's schema,
    the required ones first."""
    schema = tool.get("parameters") or {}
    properties = schema.get("properties") if isinstance(schema, dict) else None
    properties = list(properties) if isinstance(properties, dict) else []
    required = schema.get("required") if isinstance(schema, dict) else None
    required = [name for name in properties if isinstance(required, list) and name in required]
    names = {}
    parameters = []
    for name in required + [name for name in properties if name not in required]:
        spelled = identifier(name)
        while spelled in names:
            spelled += "_"
        names[spelled] = name
        default = inspect.Parameter.empty if name in required else None
        parameters.append(inspect.Parameter(spelled, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    signature = inspect.Signature(parameters)

    async def call(*values, **named):
        named = {name if name in names else identifier(name): value for name, value in named.items()}
        try:
            bound = signature.bind(*values, **named)
        except TypeError as error:
            raise TypeError("%s() %s" % (tool["function"], error)) from None
        return await calls.call(tool["name"], {names[n]: v for n, v in bound.arguments.items() if v is not None})

    call.__name__ = call.__qualname__ = tool["function"]
    call.__module__ = "__main__"
    call.__doc__ = tool.get("description") or None
    call.__signature__ = signature
    return call


def compiled(source, path):
    """Compiles a program in which await is allowed everywhere; so is return,
    since elsewhere such programs are the body of a function."""
    try:
        return compile(source, path, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True), None
    except SyntaxError as error:
        if "'return' outside function" not in str(error.msg):
            raise
    tree = ast.parse(source, path)
    first = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    body = [node for node in tree.body if node not in first]
    wrapped = ast.parse("async def f(): pass").body[0]
    wrapped.name, wrapped.body = "<module>", body
    tree.body = first + [wrapped]
    return compile(tree, path, "exec", dont_inherit=True), "<module>"


def start(code, function_name, main):
    if function_name is not None:
        exec(code, main)
        coroutine = main.pop(function_name)()
    elif code.co_flags & inspect.CO_COROUTINE:
        coroutine = types.FunctionType(code, main)()
    else:  # it awaits nothing itself, and may bring a loop of its own
        exec(code, main)
        return
    asyncio.run(coroutine)


USUAL = {"pd": "pandas", "np": "numpy", "plt": "matplotlib.pyplot"}


def import_usual(source, main):
    """Imports what a program uses by its usual name without importing it: the
    examples that models are given do so."""
    try:
        names = [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Name, ast.alias))]
    except (SyntaxError, ValueError, RecursionError):
        return
    bound = {n.asname or n.name.partition(".")[0] for n in names if isinstance(n, ast.alias)}
    bound |= {n.id for n in names if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    used = {n.id for n in names if isinstance(n, ast.Name)}
    for name, module in USUAL.items():
        if name in used - bound:
            try:
                main[name] = importlib.import_module(module)
            except ImportError:
                pass


def drive(main):
    request, _ = read_request()
    path = main["__file__"]
    put_source(path, request["source"])
    linecache.checkcache(path)
    calls = Calls()

    class Selector(selectors.DefaultSelector):
        """Every event loop waits in a selector: that is when its calls leave. A
        loop that never waits, as with asyncio.sleep(0), leaves them too, later."""

        polls = 0  # since it last waited

        def select(self, timeout=None):
            waits = timeout is None or timeout > 0
            self.polls = 0 if waits else self.polls + 1
            if (waits or self.polls % PATIENCE == 0) and calls.flush():
                timeout = 0
            return super().select(timeout)

    selectors.DefaultSelector = Selector
    main.update(asyncio=asyncio, json=json, ToolExecutionError=ToolExecutionError)
    for tool in request["tools"]:
        main[tool["function"]] = function(calls, tool)
    import_usual(request["source"], main)
    try:
        start(*compiled(request["source"].encode("utf-8", "surrogatepass"), path), main)
        return
    except SystemExit:
        raise
    except BaseException as error:
        own_frames(error, path, set())
        sys.excepthook(type(error), error, error.__traceback__)
    raise SystemExit(1)


drive(MAIN)
