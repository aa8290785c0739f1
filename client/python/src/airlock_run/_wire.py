"""What both clients do with the API's values."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from . import _models

API = "/api/v1"


class Entries(msgspec.Struct):
    """The answer to a listing."""

    entries: list[_models.Entry]
    more: bool


class Forked(msgspec.Struct):
    """The answer to a fork."""

    sessions: list[_models.Session]
    memory: bool


def socket_of(address: str) -> tuple[str | None, str]:
    """Return the path of the socket that an address names, if it does, and the base of URLs."""
    if address.startswith("unix://"):
        return address.removeprefix("unix://"), "http://localhost"
    return None, address


def milliseconds(seconds: float | None) -> int | None:
    """Return a time as the API has it."""
    return None if seconds is None else max(1, round(seconds * 1000))


def drop_absent(body: dict[str, Any]) -> dict[str, Any]:
    """Return a request without the fields that are None."""
    return {k: v for k, v in body.items() if v is not None}


class Waits:
    """Says how long to wait before a request is made again, which the service has refused for want of room."""

    LONGEST = 60.0  # seconds, together

    def __init__(self) -> None:
        self._until, self._pause = time.monotonic() + self.LONGEST, 0.05

    def after(self, status: int, retry_after: str | None) -> float | None:
        """Return the seconds to wait; None: the answer stands."""
        # With both the service says that nothing was done.
        if status not in (429, 503) or not (retry_after or "").isdecimal():
            return None
        room = float(retry_after or 0)
        if time.monotonic() + room > self._until:  # as that of a month that is used up
            return None
        self._pause = min(self._pause * 2, 2)
        return max(self._pause, room if status == 503 else 0)
