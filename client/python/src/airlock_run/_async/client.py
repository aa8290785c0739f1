"""The client of a service."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from .. import _models
from .._events import RunEvent, answer_of
from .._names import named
from .._wire import API, Waits, drop_absent, milliseconds
from ..errors import Unavailable, from_answer
from ._io import client_of, in_thread, pause
from .results import AsyncCell, AsyncFile, AsyncRun
from .session import AsyncSession

if TYPE_CHECKING:
    import httpx

    from .._names import Files, Given

R = TypeVar("R", AsyncRun, AsyncCell)
S = TypeVar("S")


class AsyncAirlock:
    """A client of one service. Threads and tasks may share it.

    Without ``server`` and AIRLOCK_SERVER it is the service of this machine, as the command finds it; if none runs, one
    is started, which ends with this process. ``key`` is needed for services elsewhere; AIRLOCK_KEY is the same.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        key: str | None = None,
        data: str | os.PathLike[str] | None = None,
        start: bool = True,
        timeout: float | None = None,
    ) -> None:
        self._server = server or os.environ.get("AIRLOCK_SERVER", "")
        self._key = key or os.environ.get("AIRLOCK_KEY", "")
        self._data, self._start, self._timeout = data, start, timeout
        self._http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> AsyncAirlock:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http:
            await self._http.aclose()
            self._http = None

    async def run(
        self,
        code: str,
        language: str = "python",
        *,
        files: Files = (),
        args: Sequence[str] = (),
        stdin: str | None = None,
        timeout: float | None = None,
        session: str | AsyncSession | None = None,
        network: Sequence[str] | None = None,
        **options: Any,
    ) -> AsyncRun:
        """Run a program and return when it has ended.

        ``files`` are put into its workspace; new and changed ones come back. ``timeout`` is in seconds. ``network`` is
        what it may contact, if the key may give that. ``options`` are further fields of the API's RunRequest.
        """
        body = await self._run_request(code, language, files, args, stdin, timeout, session, network, options)
        return self._adopted(await self.call("POST", "/runs", AsyncRun, body))

    async def stream(
        self,
        code: str,
        language: str = "python",
        *,
        files: Files = (),
        args: Sequence[str] = (),
        stdin: str | None = None,
        timeout: float | None = None,
        session: str | AsyncSession | None = None,
        network: Sequence[str] | None = None,
        **options: Any,
    ) -> AsyncIterator[RunEvent[AsyncRun]]:
        """Run a program and yield its events as they happen, of which the last has its result."""
        body = await self._run_request(code, language, files, args, stdin, timeout, session, network, options)
        async for name, data in self.events("/runs", body):
            event = answer_of(name, data, AsyncRun)
            if event.result:
                self._adopted(event.result)
            yield event
            if name == "result":
                return

    async def session(
        self,
        language: str = "python",
        *,
        files: Files = (),
        ttl: float | None = None,
        snapshot: str | None = None,
        network: Sequence[str] | None = None,
        **options: Any,
    ) -> AsyncSession:
        """Make a live session: an interpreter with variables that stay, in a workspace with files.

        ``ttl`` is how long it is kept after its last use, in seconds. ``snapshot`` is the id or name of a snapshot that
        it begins with. ``options`` are further fields of the API's SessionRequest.
        """
        body: dict[str, Any] = {"kind": "live", "language": language, "network": _network(network)}
        if snapshot:
            body = {"snapshot": snapshot}
        body |= {"ttl_seconds": int(ttl) if ttl else None, "files": await self._references(files)}
        made = await self.call("POST", "/sessions", _models.Session, drop_absent(body | options))
        return AsyncSession(self, made)

    async def get_session(self, id: str) -> AsyncSession:
        """Return a session that exists."""
        return AsyncSession(self, await self.call("GET", f"/sessions/{id}", _models.Session))

    async def upload(self, file: Given | bytes, name: str | None = None) -> AsyncFile:
        """Store a file: one at a path, or bytes under a name."""
        if isinstance(file, _models.File):
            return await self.get_file(file.id)
        if isinstance(file, bytes):
            content, name = file, name or "file"
        else:
            path = os.fspath(file)
            content, name = await in_thread(lambda: _content(path)), name or os.path.basename(path)
        made = await self.call("POST", "/files", AsyncFile, content, params={"name": name})
        made.__dict__["airlock"] = self
        return made

    async def get_file(self, id: str) -> AsyncFile:
        """Return a stored file."""
        found = await self.call("GET", f"/files/{id}", AsyncFile)
        found.__dict__["airlock"] = self
        return found

    async def get_run(self, id: str) -> AsyncRun:
        """Return a run as it stands."""
        return self._adopted(await self.call("GET", f"/runs/{id}", AsyncRun))

    async def propose(self, reply: str, project: str, **options: Any) -> _models.Proposal:
        """Read a model's reply, and return what it would change in a project's folder. Nothing is changed yet."""
        return await self.call("POST", "/replies", _models.Proposal, {"text": reply, "project": project, **options})

    async def approve(self, proposal: _models.Proposal, only: Sequence[str] | None = None) -> _models.Proposal:
        """Carry out a proposal, or parts of it: all that is approved, or nothing."""
        body = drop_absent({"token": proposal.token, "only": only})
        return await self.call("POST", f"/proposals/{proposal.id}/approve", _models.Proposal, body)

    async def call(self, method: str, path: str, into: type[S], body: Any = None, **how: Any) -> S:
        """Call the API and return the answer as a model. ``path`` is below /api/v1."""
        return msgspec.json.decode(await self.request(method, path, body, **how), type=into)

    async def get(self, path: str) -> bytes:
        """Return the bytes at a path of the API."""
        return await self.request("GET", path)

    async def request(self, method: str, path: str, body: Any = None, **how: Any) -> bytes:
        """Call the API and return the body of the answer. Where nothing was done for want of room, it tries again."""
        import httpx

        client = await self._connect()
        content, headers = _body(body)
        waits = Waits()
        while True:
            try:
                r = await client.request(method, API + path, content=content, headers=headers, **how)
            except httpx.TransportError as err:
                raise self._unreachable(err) from err
            if r.status_code < 300:
                return r.content
            wait = waits.after(r.status_code, r.headers.get("Retry-After"))
            if wait is None:
                raise from_answer(r.status_code, r.content)
            await pause(wait)

    async def events(self, path: str, body: Any) -> AsyncIterator[tuple[str, str]]:
        """Make a call and yield the names and data of the events of its answer."""
        import httpx
        from httpx_sse import EventSource

        client = await self._connect()
        content, headers = _body(body)
        headers["Accept"] = "text/event-stream"
        waits = Waits()
        while True:
            try:
                async with client.stream("POST", API + path, content=content, headers=headers) as r:
                    if r.status_code < 300:
                        async for e in EventSource(r).aiter_sse():
                            yield e.event, e.data
                        return
                    wait = waits.after(r.status_code, r.headers.get("Retry-After"))
                    if wait is None:
                        raise from_answer(r.status_code, await r.aread())
            except httpx.TransportError as err:
                raise self._unreachable(err) from err
            await pause(wait)

    async def _connect(self) -> httpx.AsyncClient:
        if self._http is None:
            from .. import _service

            address = self._server or await in_thread(lambda: _service.find(self._data, self._start))
            headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            self._http = client_of(address, headers, self._timeout)
        return self._http

    def _unreachable(self, err: Exception) -> Unavailable:
        where = self._server or "this machine's service"
        return Unavailable(
            f"{where} does not answer: {err or type(err).__name__}",
            hint="Nothing says whether the request was carried out. `airlock health` asks the service.",
        )

    async def _run_request(
        self,
        code: str,
        language: str,
        files: Files,
        args: Sequence[str],
        stdin: str | None,
        timeout: float | None,
        session: str | AsyncSession | None,
        network: Sequence[str] | None,
        options: dict[str, Any],
    ) -> dict[str, Any]:
        body = {
            "language": language,
            "code": code,
            "args": list(args) or None,
            "stdin": stdin,
            "files": await self._references(files),
            "timeout_ms": milliseconds(timeout),
            "session": getattr(session, "id", session),
            "network": _network(network),
        }
        return drop_absent(body | options)

    async def _references(self, files: Files) -> list[dict[str, str]] | None:
        out = []
        for name, file in named(files):
            id = file.id if isinstance(file, _models.File) else (await self.upload(file, os.path.basename(name))).id
            out.append({"id": id, "path": name})
        return out or None

    def _adopted(self, result: R) -> R:
        result._adopt(self)
        return result


def _network(allow: Sequence[str] | None) -> dict[str, Any] | None:
    return None if allow is None else {"allow": list(allow)}


def _content(path: str) -> bytes:
    with open(path, "rb") as f:
        return f.read()


def _body(body: Any) -> tuple[bytes | None, dict[str, str]]:
    if body is None:
        return None, {}
    if isinstance(body, bytes):
        return body, {"Content-Type": "application/octet-stream"}
    return msgspec.json.encode(body), {"Content-Type": "application/json"}
