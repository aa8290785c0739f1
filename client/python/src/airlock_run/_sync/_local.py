"""Requests to a service of this machine."""

from __future__ import annotations

import socket
from http.client import HTTPConnection, HTTPException
from typing import Any

import httpx

IDLE = 50  # connections that are kept
JOINED = 1 << 16  # bytes of a body that are copied behind the head of its request


class LocalClient(httpx.Client):
    """A client of a service of this machine.

    Its requests are made by the standard library, because httpx takes half a millisecond longer for each, a third of
    what a short program takes. Streams go through httpx.
    """

    def __init__(self, uds: str | None, **options: Any) -> None:
        super().__init__(**options)
        self._uds, self._always = uds, dict(self.headers)
        self._idle: list[Connection] = []

    def request(self, method: str, url: httpx.URL | str, **how: Any) -> httpx.Response:
        """Make a request and return its answer."""
        path = str(url)
        if how.get("params"):
            path += f"?{httpx.QueryParams(how['params'])}"
        connection = self._connection()
        try:
            connection.request(method, path, how.get("content"), {**self._always, **(how.get("headers") or {})})
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, HTTPException) as err:
            connection.close()
            raise httpx.ReadError(str(err) or type(err).__name__) from err
        if answer.will_close or len(self._idle) >= IDLE:
            connection.close()
        else:
            self._idle.append(connection)
        return httpx.Response(answer.status, headers=answer.getheaders(), content=body)

    def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().close()
        super().close()

    def _connection(self) -> Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            if self._is_open(connection):
                return connection
            connection.close()
        if self._uds:
            connection = UnixConnection(self._uds)
        else:
            connection = Connection(self.base_url.host, self.base_url.port, timeout=self.timeout.connect)
        try:
            connection.connect()
        except OSError as err:
            raise httpx.ConnectError(str(err)) from err
        connection.sock.settimeout(self.timeout.read)
        return connection

    def _is_open(self, connection: Connection) -> bool:
        """Report whether the service has left an idle connection open."""
        connection.sock.settimeout(0)
        try:
            connection.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            connection.sock.settimeout(self.timeout.read)
            return True
        except OSError:
            pass
        return False


class Connection(HTTPConnection):
    """A connection that sends the head of a request with its body, so that the service is woken once."""

    _begins = False
    _head = b""

    def request(self, *args: Any, **named: Any) -> None:
        """Send a request."""
        self._begins = True
        super().request(*args, **named)
        if self._head:  # there is no body
            head, self._head = self._head, b""
            super().send(head)

    def send(self, data: Any) -> None:
        """Send a part of a request."""
        if self._begins:
            self._begins, self._head = False, data
            return
        if head := self._head:
            self._head = b""
            if isinstance(data, bytes) and len(data) <= JOINED:
                data = head + data
            else:
                super().send(head)
        super().send(data)


class UnixConnection(Connection):
    """A connection to a socket in the file system."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        """Connect."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)
