"""What differs between the two clients and is no await."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(do: Callable[[], T]) -> T:
    """Call a function that blocks."""
    import anyio

    return await anyio.to_thread.run_sync(do)


async def pause(seconds: float) -> None:
    """Wait."""
    import anyio

    await anyio.sleep(seconds)
