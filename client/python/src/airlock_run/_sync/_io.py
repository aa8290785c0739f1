"""What differs between the two clients and is no await."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep as sleep
from typing import TYPE_CHECKING, TypeVar

from .._wire import socket_of

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


def client_of(address: str, headers: dict[str, str], timeout: float | None) -> httpx.Client:
    """Return what makes the requests to a service."""
    import httpx

    uds, base = socket_of(address)
    # A pool of any size: the service says when it is busy, and calls wait for programs.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
    transport = httpx.HTTPTransport(uds=uds, limits=limits) if uds else None
    waits = httpx.Timeout(timeout, connect=10)
    url = httpx.URL(base)
    local = url.host in ("localhost", "127.0.0.1") and url.scheme == "http"
    if local and url.path == "/" and not url.userinfo:
        from ._local import LocalClient

        return LocalClient(uds, base_url=base, headers=headers, timeout=waits, limits=limits, transport=transport)
    return httpx.Client(base_url=base, headers=headers, timeout=waits, limits=limits, transport=transport)


def in_thread(do: Callable[[], T]) -> T:
    """Call a function that blocks."""
    return do()
