"""Events of runs and cells."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from . import _models

T = TypeVar("T")


class RunEvent(msgspec.Struct, Generic[T], kw_only=True):
    """Something that a program did: ``type`` is started, output or result."""

    type: str
    stream: str | None = None  # of output: stdout or stderr
    text: str = ""  # of output
    result: T | None = None  # of started and result


class CellEvent(msgspec.Struct, Generic[T], kw_only=True):
    """Something that a cell did: ``type`` is started, stdout, stderr, display, result, error, input or done."""

    type: str
    output: _models.CellOutput | None = None
    prompt: str = ""  # of input
    cell: T | None = None  # of started and done


class _Prompt(msgspec.Struct):
    prompt: str = ""


def answer_of(name: str, data: str, into: type[T]) -> RunEvent[T]:
    """Return an event of a run."""
    if name == "output":
        o = msgspec.json.decode(data, type=_models.Output)
        return RunEvent(type=name, stream=o.stream, text=o.data)
    return RunEvent(type=name, result=msgspec.json.decode(data, type=into))


def cell_event(name: str, data: str, into: type[T]) -> CellEvent[T]:
    """Return an event of a cell. The outputs of a cell are events of their own."""
    if name in ("started", "done"):
        return CellEvent(type=name, cell=msgspec.json.decode(data, type=into))
    if name == "input":
        return CellEvent(type=name, prompt=msgspec.json.decode(data, type=_Prompt).prompt)
    output = msgspec.json.decode(data, type=_models.CellOutput)
    output.type = name  # type: ignore[assignment]
    return CellEvent(type=name, output=output)
