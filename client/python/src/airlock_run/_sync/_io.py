"""What differs between the two clients and is no await."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep as sleep
from typing import TypeVar

T = TypeVar("T")


def in_thread(do: Callable[[], T]) -> T:
    """Call a function that blocks."""
    return do()
