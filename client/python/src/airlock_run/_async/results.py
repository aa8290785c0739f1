"""Files, runs and cells."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _display, _models
from .._names import target
from ..errors import RunFailed

if TYPE_CHECKING:
    from .client import AsyncAirlock


class AsyncFile(_models.File, kw_only=True, dict=True):
    """A stored file: an upload, or what a program has made."""

    async def read(self) -> bytes:
        """Return its content."""
        return await self._airlock.get(f"/files/{self.id}/content")

    async def save(self, folder: str | os.PathLike[str] = ".") -> Path:
        """Save it below a folder, at its own path, and return where it is."""
        at = target(folder, self.path or self.name)
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_bytes(await self.read())
        return at

    async def delete(self) -> None:
        """Delete it."""
        await self._airlock.request("DELETE", f"/files/{self.id}")

    @property
    def _airlock(self) -> AsyncAirlock:
        found: AsyncAirlock = self.__dict__["airlock"]
        return found


class _Result:
    """What a run and a cell have in common."""

    files: list[AsyncFile]

    def file(self, path: str) -> AsyncFile:
        """Return the file that the program has left at a path."""
        for f in self.files:
            if f.path == path:
                return f
        left = ", ".join(f.path for f in self.files) or "none"
        raise KeyError(f"the program has left no file {path}; it has left: {left}")

    async def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Save all files below a folder."""
        return [await f.save(folder) for f in self.files]

    def _adopt(self, airlock: AsyncAirlock) -> None:
        for f in self.files:
            f.__dict__["airlock"] = airlock


class AsyncRun(_Result, _models.Run, kw_only=True, dict=True):
    """A program that has ended, with its output and its files."""

    files: list[AsyncFile]  # type: ignore[assignment]

    @property
    def ok(self) -> bool:
        """Whether it has ended with exit code 0."""
        return self.status == "ok"

    def check(self) -> AsyncRun:
        """Return the run, or raise RunFailed with the end of its stderr if it did not end well."""
        if not self.ok:
            says = self.message or self.stderr.strip()[-2000:]
            raise RunFailed(f"the program ended with status {self.status}: {says}".rstrip(": "), self)
        return self

    def _ipython_display_(self) -> None:
        _display.show_run(self)


class AsyncCell(_Result, _models.Cell, kw_only=True, dict=True):
    """A cell that has ended, with its outputs and its files."""

    files: list[AsyncFile]  # type: ignore[assignment]

    @property
    def ok(self) -> bool:
        """Whether it has ended without an error."""
        return self.status == "ok"

    @property
    def stdout(self) -> str:
        """What it has printed."""
        return "".join(o.text or "" for o in self.outputs if o.type == "stdout")

    @property
    def result(self) -> Any:
        """The text of its last expression's value; None without one."""
        for o in reversed(self.outputs):
            if o.type == "result" and o.data:
                return o.data.get("text/plain")
        return None

    def check(self) -> AsyncCell:
        """Return the cell, or raise RunFailed with its error if it did not end well."""
        if not self.ok:
            errors = [f"{o.name}: {o.value}" for o in self.outputs if o.type == "error"]
            raise RunFailed(
                f"the cell ended with status {self.status}: {self.message or ''.join(errors)}".rstrip(": "),
                self,
                self.hint or "",
            )
        return self

    def _ipython_display_(self) -> None:
        _display.show_cell(self)
