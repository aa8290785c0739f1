"""Live sessions."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _models
from .._events import CellEvent, cell_event
from .._wire import Entries, Forked, drop_absent, milliseconds
from .results import AsyncCell

if TYPE_CHECKING:
    from .client import AsyncAirlock


T = TypeVar("T")


class AsyncSession:
    """An interpreter with variables that stay, in a workspace with files.

    As a context manager it is deleted at the end. Else it is kept for its ``ttl`` after its last use, and
    ``get_session`` finds it again.
    """

    def __init__(self, airlock: AsyncAirlock, info: _models.Session) -> None:
        self._airlock, self.info, self.id = airlock, info, info.id
        self.files = AsyncFolder(self)

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.delete()

    async def cell(self, code: str, *, timeout: float | None = None, **options: Any) -> AsyncCell:
        """Run code and return when it has ended. ``timeout`` is in seconds."""
        body = drop_absent({"code": code, "timeout_ms": milliseconds(timeout), **options})
        made = await self._call("POST", "/cells", AsyncCell, body)
        made._adopt(self._airlock)
        return made

    async def stream(
        self, code: str, *, timeout: float | None = None, **options: Any
    ) -> AsyncIterator[CellEvent[AsyncCell]]:
        """Run code and yield its outputs as they happen. The last event has the cell."""
        body = drop_absent({"code": code, "timeout_ms": milliseconds(timeout), **options})
        async for name, data in self._airlock.events(f"/sessions/{self.id}/cells", body):
            event = cell_event(name, data, AsyncCell)
            if event.cell:
                event.cell._adopt(self._airlock)
            yield event
            if name == "done":
                return

    async def answer(self, text: str) -> None:
        """Answer input() of the cell that runs, which was made with input=True."""
        await self._request("POST", "/input", {"text": text})

    async def interrupt(self) -> None:
        """Interrupt the cell that runs, as Ctrl-C does."""
        await self._request("POST", "/interrupt")

    async def restart(self) -> None:
        """End the interpreter and all processes. Files stay; the next cell begins with a new interpreter."""
        await self._request("POST", "/restart")

    async def install(self, *packages: str) -> AsyncCell:
        """Install packages, if the session may reach their registry."""
        made = await self._call("POST", "/packages", AsyncCell, {"names": list(packages)})
        made._adopt(self._airlock)
        return made

    async def frame(self, name: str, **query: Any) -> _models.FrameAnswer:
        """Return rows of a data frame that a cell has displayed: see FrameQuery of the API."""
        return await self._call("POST", f"/frames/{name}", _models.FrameAnswer, query)

    async def fork(self, count: int = 1, **options: Any) -> list[AsyncSession]:
        """Make copies of the session, all or none."""
        made = await self._call("POST", "/fork", Forked, {"count": count, **options})
        return [AsyncSession(self._airlock, info) for info in made.sessions]

    async def snapshot(self, name: str | None = None, **options: Any) -> _models.Snapshot:
        """Make a snapshot, of which ``Airlock.session(snapshot=…)`` makes sessions."""
        return await self._call("POST", "/snapshots", _models.Snapshot, drop_absent({"name": name, **options}))

    async def pause(self, **options: Any) -> None:
        """End the interpreter until the next cell. With a kernel of its own the session goes on with its variables."""
        await self._request("POST", "/pause", options)

    async def delete(self) -> None:
        """Delete the session and its workspace."""
        await self._airlock.request("DELETE", f"/sessions/{self.id}")

    async def _call(self, method: str, path: str, into: type[T], body: Any = None, **how: Any) -> T:
        return await self._airlock.call(method, f"/sessions/{self.id}{path}", into, body, **how)

    async def _request(self, method: str, path: str, body: Any = None, **how: Any) -> bytes:
        return await self._airlock.request(method, f"/sessions/{self.id}{path}", body, **how)

    def __repr__(self) -> str:
        return f"<Airlock session {self.id}, {self.info.language}>"


class AsyncFolder:
    """The workspace of a session. Paths are relative to it."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def write(self, path: str, content: bytes | str) -> _models.Entry:
        """Make or replace a file: all of it, or nothing. When it returns, the file is stored."""
        if isinstance(content, str):
            content = content.encode()
        return await self._call("/fs/write", _models.Entry, content, params={"path": path})

    async def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return await self._session._request("GET", "/fs/read", params={"path": path})

    async def list(self, path: str = "", depth: int = 1) -> list[_models.Entry]:
        """Return what is in a folder, down to a depth."""
        found = await self._session._call("GET", "/fs/list", Entries, params={"path": path, "depth": depth})
        return found.entries

    async def move(self, source: str, target: str, *, replace: bool = False) -> _models.Entry:
        """Rename a file or a folder."""
        where = {"from": source, "to": target, "replace": replace}
        return await self._call("/fs/move", _models.Entry, None, params=where)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, or a folder with all that is in it."""
        await self._session._request("POST", "/fs/remove", params={"path": path, "recursive": recursive})

    async def put(self, path: str | os.PathLike[str], name: str | None = None) -> _models.Entry:
        """Copy a file of this machine into the workspace."""
        return await self.write(name or Path(path).name, Path(path).read_bytes())

    async def save(self, path: str, to: str | os.PathLike[str] = ".") -> Path:
        """Copy a file of the workspace into a folder of this machine."""
        at = Path(to) / Path(path).name
        at.write_bytes(await self.read(path))
        return at

    async def _call(self, path: str, into: type[T], body: Any, **how: Any) -> T:
        return await self._session._call("POST", path, into, body, **how)
