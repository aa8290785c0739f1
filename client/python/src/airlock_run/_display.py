"""Shows runs and cells in notebooks."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._models import Cell, CellOutput, File, Run

# Types of MIME bundles that are base64 in JSON and bytes for IPython.
BINARY = {"image/png", "image/jpeg", "application/pdf"}

SHOWN = 5 << 20  # bytes of a picture that a run has made


def show_run(run: Run) -> None:
    """Show what a run has printed, its pictures, and the names of its other files."""
    _print("stdout", run.stdout)
    _print("stderr", run.stderr)
    if run.status != "ok":
        _print("stderr", f"[{run.status}] {run.message or ''}".rstrip() + "\n")
    _show_files(run.files)


def show_cell(cell: Cell) -> None:
    """Show the outputs of a cell, and the names of its files."""
    for output in cell.outputs:
        show_output(output)
    if cell.message:
        _print("stderr", f"[{cell.status}] {cell.message}\n")
    _show_files(cell.files, pictures=False)


def show_output(output: CellOutput) -> None:
    """Show one output of a cell."""
    if output.type in ("stdout", "stderr"):
        _print(output.type, output.text or "")
    elif output.type == "error":
        _print("stderr", "\n".join(output.traceback or [f"{output.name}: {output.value}"]) + "\n")
    elif output.data:
        _publish({kind: base64.b64decode(value) if kind in BINARY else value for kind, value in output.data.items()})


def _show_files(files: list[Any], pictures: bool = True) -> None:
    others = []
    for f in files:
        if pictures and f.mime in ("image/png", "image/jpeg") and f.size <= SHOWN:
            _publish({f.mime: _content(f), "text/plain": f.path})
        others.append(f"{f.path} ({f.size:,} bytes)")
    if others:
        _publish({"text/plain": "Files: " + ", ".join(others)})


def _content(file: File) -> bytes:
    """Return the content of a file. A display awaits nothing: a client with async has another fetch it."""
    airlock = file.__dict__["airlock"]
    from ._sync import Airlock

    if isinstance(airlock, Airlock):
        return airlock.get(f"/files/{file.id}/content")
    with Airlock(airlock._server, key=airlock._key, data=airlock._data) as other:
        return other.get(f"/files/{file.id}/content")


def _print(stream: str, text: str) -> None:
    import sys

    if text:
        print(text, end="", file=sys.stderr if stream == "stderr" else sys.stdout, flush=True)


def _publish(data: dict[str, Any]) -> None:
    from IPython.display import display

    display(data, raw=True)  # type: ignore[no-untyped-call]
