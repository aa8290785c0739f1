"""Airlock: run code that nobody has read, on files, without a way out.

>>> from airlock_run import Airlock
>>> with Airlock() as airlock:
...     print(airlock.run("print(1 + 1)").stdout)
2
"""

from __future__ import annotations

from ._async import AsyncAirlock, AsyncCell, AsyncFile, AsyncRun, AsyncSession
from ._sync import Airlock, Cell, File, Run, Session
from .errors import AirlockError, RunFailed

__all__ = [
    "Airlock", "AirlockError", "AsyncAirlock", "AsyncCell", "AsyncFile", "AsyncRun", "AsyncSession", "Cell", "File",
    "Run", "RunFailed", "Session", "load_ipython_extension", "stop",
]  # fmt: skip


def stop() -> None:
    """Stop the services that this process has started. Its exit does that."""
    from ._service import stop

    stop()


def load_ipython_extension(shell: object) -> None:
    """Add the magics %airlock and %%airlock, by %load_ext airlock_run."""
    from ._magic import load

    load(shell)
