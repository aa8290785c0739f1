"""Errors of the client."""

from __future__ import annotations

from typing import Any


class AirlockError(Exception):
    """What the service refused, or why it could not be reached.

    ``code`` is one of the codes of the API, as ``not_found``; ``hint`` says what to do, where there is something to do.
    """

    def __init__(self, message: str, *, code: str = "", hint: str = "", status: int = 0, request_id: str = "") -> None:
        super().__init__(message)
        self.message, self.code, self.hint, self.status, self.request_id = message, code, hint, status, request_id

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class Invalid(AirlockError):
    """The request has a fault."""


class Denied(AirlockError):
    """The key is not known, or may not do this."""


class NotFound(AirlockError):
    """There is no such object, or it is not the caller's."""


class Conflict(AirlockError):
    """The state of the object does not allow it."""


class TooLarge(AirlockError):
    """It is over a limit of size, or of the owner's quota."""


class Busy(AirlockError):
    """The service has too much to do; the client has tried again for a while."""


class Unavailable(AirlockError):
    """The service cannot do that at the moment, or does not answer."""


class NoService(Unavailable):
    """No service was found, and none could be started."""


class RunFailed(AirlockError):
    """A program or a cell that did not end well. ``result`` is the run or the cell."""

    def __init__(self, message: str, result: Any, hint: str = "") -> None:
        super().__init__(message, code=result.status, hint=hint)
        self.result = result


CLASSES: dict[str, type[AirlockError]] = {
    "invalid": Invalid, "unsupported_media_type": Invalid, "method_not_allowed": Invalid, "no_language": Invalid,
    "unauthorized": Denied, "forbidden": Denied, "network_denied": Denied, "misdirected": Denied,
    "not_found": NotFound, "conflict": Conflict, "too_large": TooLarge, "full": TooLarge,
    "quota_exceeded": TooLarge, "busy": Busy,
    "unavailable": Unavailable,
}  # fmt: skip


def from_answer(status: int, body: bytes) -> AirlockError:
    """Return the error of an answer."""
    import msgspec

    from ._models import Error

    try:
        e = msgspec.json.decode(body, type=Error).error
    except msgspec.MsgspecError:
        text = body[:200].decode(errors="replace")
        return Unavailable(
            f"what answers is no Airlock service: {status} {text}",
            status=status,
            hint="Look at the address: AIRLOCK_SERVER is that of the service, without a path.",
        )
    kind = CLASSES.get(e.code, AirlockError)
    return kind(e.message, code=e.code, hint=e.hint or "", status=status, request_id=e.request_id)
