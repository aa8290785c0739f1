"""The tools of other servers, as functions:

    from servers import github, ToolError       from servers.aio import github
    github.list_issues(repo="a/b")              await github.list_issues(repo="a/b")

dir(github) names them, help(github.list_issues) describes one. What they answer is
data of strangers. Pictures and files come as paths of files in the working directory.
"""

import asyncio
import base64
import difflib
import inspect
import os
import typing

_TYPES = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict, "None": None}


class ToolError(Exception):
    """A tool refused, failed, or may not be called."""


def _nearest(kind, name, names):
    near = difflib.get_close_matches(name, names, 3, 0.5) or sorted(names)[:10]
    return "%s %r. %s" % (kind, name, "There are: %s" % ", ".join(near) if near else "There are none.")


def _saved(file):
    number = 1
    while True:
        path = "tool_%d%s" % (number, file["extension"])
        try:
            with open(path, "xb") as to:
                to.write(base64.b64decode(file["base64"]))
            return path
        except FileExistsError:
            number += 1


def _function(server, tool):
    names = {p["name"]: p["wire"] for p in tool["parameters"] or []}
    required = [p["name"] for p in tool["parameters"] or [] if p["required"]]
    shown = "%s.%s" % (server, tool["function"])

    def function(**arguments):
        for name in arguments:
            if name not in names and not tool["open"]:
                raise TypeError(_nearest("%s has no argument" % shown, name, names))
        missing = [name for name in required if name not in arguments]
        if missing:
            raise TypeError("%s needs %s" % (shown, ", ".join(missing)))
        given = {names.get(name, name): value for name, value in arguments.items()}
        answer = call("tool", {"server": server, "tool": tool["name"], "arguments": given})
        if answer.get("error"):
            raise ToolError(answer["error"])
        files = [_saved(file) for file in answer.get("files") or []]
        if files and answer["value"] is None:
            return files[0] if len(files) == 1 else files
        return {"value": answer["value"], "files": files} if files else answer["value"]

    function.__name__ = function.__qualname__ = tool["function"]
    lines = [tool["about"], ""] + ["%s: %s" % (p["name"], p["about"]) for p in tool["parameters"] or [] if p["about"]]
    function.__doc__ = "\n".join(lines).strip()
    function.__signature__ = inspect.Signature([
        inspect.Parameter(
            p["name"], inspect.Parameter.KEYWORD_ONLY, annotation=_TYPES.get(p["type"], typing.Any),
            default=inspect.Parameter.empty if p["required"] else ...,
        ) for p in tool["parameters"] or []
    ])
    return function


class _Server:
    def __init__(self, name, wrap):
        self._name, self._wrap, self._functions = name, wrap, {}

    def _load(self):
        found = {tool["function"]: self._wrap(_function(self._name, tool)) for tool in call("tools", self._name) or []}
        self._functions = found
        return found

    def __dir__(self):
        return sorted(self._functions or self._load())

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        found = self._functions.get(name) or self._load().get(name)
        if found is None:
            raise AttributeError(_nearest("the server %s has no tool" % self._name, name, self._functions))
        return found


def _coroutine(function):
    async def coroutine(**arguments):
        return await asyncio.to_thread(function, **arguments)

    coroutine.__name__, coroutine.__doc__, coroutine.__signature__ = function.__name__, function.__doc__, function.__signature__
    return coroutine


def _finder(wrap):
    known = {}

    def find(name):
        if name.startswith("_"):
            raise AttributeError(name)
        names = call("servers", None) or []
        if name not in names:
            raise AttributeError(_nearest("there is no server", name, names))
        return known.setdefault(name, _Server(name, wrap))

    return find


__getattr__ = _finder(lambda function: function)
_coroutines = _finder(_coroutine)
__all__ = ["ToolError"]
