"""What differs between the two clients and is no await."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from .._wire import socket_of

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


def client_of(address: str, headers: dict[str, str], timeout: float | None) -> httpx.AsyncClient:
    """Return what makes the requests to a service."""
    import httpx

    uds, base = socket_of(address)
    # A pool of any size: the service says when it is busy, and calls wait for programs.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
    transport = httpx.AsyncHTTPTransport(uds=uds, limits=limits) if uds else None
    waits = httpx.Timeout(timeout, connect=10)
    return httpx.AsyncClient(base_url=base, headers=headers, timeout=waits, limits=limits, transport=transport)


async def in_thread(do: Callable[[], T]) -> T:
    """Call a function that blocks."""
    import anyio

    return await anyio.to_thread.run_sync(do)


async def pause(seconds: float) -> None:
    """Wait."""
    import anyio

    await anyio.sleep(seconds)
