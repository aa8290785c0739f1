"""The client."""

from .client import AsyncAirlock
from .results import AsyncCell, AsyncFile, AsyncRun
from .session import AsyncSession

__all__ = ["AsyncAirlock", "AsyncCell", "AsyncFile", "AsyncRun", "AsyncSession"]
