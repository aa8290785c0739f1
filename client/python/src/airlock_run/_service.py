"""Finds the service, or starts one."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path

from .errors import NoService

START_TIME = 60.0  # seconds; the first start of a machine compiles what it needs

_lock = threading.Lock()
_started: dict[Path, subprocess.Popen[bytes]] = {}


def data_folder(data: str | os.PathLike[str] | None) -> Path:
    """Return the data folder of the service, as the command has it."""
    if data or os.environ.get("AIRLOCK_DATA"):
        return Path(data or os.environ["AIRLOCK_DATA"])
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/airlock")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "airlock"


def command() -> str:
    """Return the path of the command: that of this package, or the one on PATH."""
    beside = Path(sysconfig.get_path("scripts")) / "airlock"
    found = str(beside) if beside.exists() else shutil.which("airlock")
    if found:
        return found
    if sys.platform != "linux":
        raise NoService(
            "programs run on Linux only, and this machine is none",
            hint="Give the address of a service: Airlock('http://host:8000'), or AIRLOCK_SERVER.",
        )
    raise NoService(
        "the command airlock is not there", hint="Install the wheel for this machine, or give the address of a service."
    )


def answers(path: Path) -> bool:
    """Report whether a service listens at a socket."""
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(path))
        return True
    except OSError:
        return False


def find(data: str | os.PathLike[str] | None, start: bool) -> str:
    """Return the address of this machine's service, which is started if there is none."""
    at = data_folder(data) / "airlock.sock"
    if not hasattr(socket, "AF_UNIX"):
        command()  # says why there is none
    with _lock:
        if not answers(at):
            if not start:
                raise NoService(f"no service listens at {at}", hint="Start one: `airlock serve`.")
            _start(at)
    return f"unix://{at}"


def _start(at: Path) -> None:
    log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the service
    service = subprocess.Popen(
        [command(), "--data", str(at.parent), "serve", "--listen", "127.0.0.1:0"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
    deadline = time.monotonic() + START_TIME
    while not answers(at):
        ended = service.poll() is not None
        if ended or time.monotonic() > deadline:
            if not ended:
                service.terminate()
            log.seek(0)
            said = log.read()[-2000:].decode(errors="replace").strip()
            raise NoService(
                f"the service could not be started: {said}",
                hint="`airlock setup` prepares this machine; `airlock doctor` says what it lacks.",
            )
        time.sleep(0.02)
    _started[at] = service
    if len(_started) == 1:
        atexit.register(stop)


def stop() -> None:
    """Stop the services that this process has started."""
    with _lock:
        for service in _started.values():
            service.terminate()
        for service in _started.values():
            try:
                service.wait(30)
            except subprocess.TimeoutExpired:
                service.kill()
        _started.clear()


def main() -> None:
    """Become the command: uvx looks for one with the name of the package."""
    try:
        path = command()
    except NoService as err:
        sys.exit(f"error: {err}")
    os.execv(path, [path, *sys.argv[1:]])
