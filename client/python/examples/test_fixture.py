"""Tests of code that an agent has written, each in a sandbox of its own."""

from collections.abc import Iterator

import pytest

from airlock_run import Airlock, Session

WRITTEN = "def double(x):\n    return 2 * x\n"


@pytest.fixture(scope="session")
def airlock() -> Iterator[Airlock]:
    with Airlock() as airlock:
        yield airlock


@pytest.fixture
def sandbox(airlock: Airlock) -> Iterator[Session]:
    with airlock.session() as session:
        session.files.write("written.py", WRITTEN)
        yield session


@pytest.mark.parametrize(("value", "expected"), [("2", "4"), ("'ab'", "'abab'")])
def test_double(sandbox: Session, value: str, expected: str) -> None:
    assert sandbox.cell(f"from written import double; double({value})").check().result == expected


def test_nothing_of_the_host(sandbox: Session) -> None:
    assert not sandbox.cell("import socket; socket.create_connection(('1.1.1.1', 80))").ok
