"""Tests of the client against a service, which AIRLOCK_SERVER names."""

from __future__ import annotations

import asyncio
import json
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from airlock_run import Airlock, AsyncAirlock, RunFailed, Session, errors


@pytest.fixture(scope="module")
def airlock() -> Iterator[Airlock]:
    with Airlock() as airlock:
        yield airlock


@pytest.fixture(scope="module")
def session(airlock: Airlock) -> Iterator[Session]:
    with airlock.session() as session:
        yield session


def test_files_go_in_and_come_out(airlock: Airlock, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("a,b\n1,2\n")
    code = (
        "import os; os.mkdir('d'); print(open('in.csv').read() + open('x/y').read()); open('d/out.txt', 'w').write('é')"
    )
    for files in ([source], {"in.csv": source}, {"in.csv": airlock.upload(source)}):
        given = dict(files) if isinstance(files, dict) else {"in.csv": files[0]}
        run = airlock.run(code, files={**given, "x/y": b"more"}).check()
        assert run.stdout == "a,b\n1,2\nmore\n"
        assert run.file("d/out.txt").read() == "é".encode()
    assert [p.relative_to(tmp_path).as_posix() for p in run.save(tmp_path)] == ["d/out.txt"]
    assert (tmp_path / "d/out.txt").read_text() == "é"
    with pytest.raises(KeyError, match=r"d/out\.txt"):
        run.file("other")


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", ""])
def test_a_file_stays_in_its_folder(airlock: Airlock, tmp_path: Path, path: str) -> None:
    file = airlock.upload(b"x", "x")
    file.path = file.name = path
    with pytest.raises(ValueError, match="leads out"):
        file.save(tmp_path / "in")


def test_a_link_does_not_lead_out(airlock: Airlock, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/d").symlink_to(tmp_path)
    file = airlock.upload(b"x", "x")
    file.path = "d/x"
    with pytest.raises(ValueError, match="leads out"):
        file.save(tmp_path / "in")


def test_failures_have_hints(airlock: Airlock) -> None:
    run = airlock.run("import sys; print('before'); import nosuchmodule")
    assert (run.ok, run.exit_code, run.stdout) == (False, 1, "before\n")
    with pytest.raises(RunFailed, match="nosuchmodule is not in this environment") as failed:
        run.check()
    assert failed.value.result is run
    with pytest.raises(errors.Invalid, match="klingon"):
        airlock.run("x", language="klingon")
    with pytest.raises(errors.NotFound) as missing:
        airlock.get_run("BXqTkJ1mEw0vYb7RfLhZ2")
    assert missing.value.code == "not_found"
    assert missing.value.request_id
    assert airlock.run("while True: pass", timeout=0.3).status == "timeout"
    assert airlock.run("cat", language="bash", stdin="typed", args=["a"]).stdout == "typed"


def test_events(airlock: Airlock) -> None:
    events = list(airlock.stream("import time\nfor i in range(3): print(i, flush=True); time.sleep(0.1)"))
    assert events[0].type == "started"
    assert "".join(e.text for e in events) == "0\n1\n2\n"
    assert events[-1].result
    assert events[-1].result.ok
    first = next(iter(airlock.stream("print('first', flush=True)\nwhile True: pass", timeout=60)))
    assert first.type == "started"  # leaving ends the program
    assert airlock.run("1").ok


def test_sessions(airlock: Airlock, session: Session, tmp_path: Path) -> None:
    session.cell("x = 41").check()
    assert session.cell("x + 1").check().result == "42"
    cell = session.cell("open('made', 'w').write('m'); 1/0")
    assert [f.path for f in cell.files] == ["made"]
    assert cell.file("made").read() == b"m"
    with pytest.raises(RunFailed, match="ZeroDivisionError: division by zero"):
        cell.check()
    with pytest.raises(RunFailed, match="hint: nosuchmodule is not in this environment"):
        session.cell("import nosuchmodule").check()
    session.files.write("d/a.txt", "text")
    assert session.files.read("d/a.txt") == b"text"
    session.files.move("d/a.txt", "b.txt")
    session.files.remove("d", recursive=True)
    assert {e.path for e in session.files.list()} == {"b.txt", "made"}
    assert session.files.save("b.txt", tmp_path).read_text() == "text"
    assert airlock.get_session(session.id).cell("x").result == "41"
    snapshot = session.snapshot()
    with airlock.session(snapshot=snapshot.id) as other, session.fork(2)[1] as copy:
        for s in (other, copy):
            assert {e.path for e in s.files.list()} == {"b.txt", "made"}
    session.restart()
    assert not session.cell("x").ok
    kinds = [e.type for e in session.stream("print(1); 2")]
    assert kinds == ["started", "stdout", "result", "done"]


def test_input(session: Session) -> None:
    said = []
    for event in session.stream("print('hello', input('name? '))", input=True):
        if event.type == "input":
            assert event.prompt == "name? "
            session.answer("Ada")
        elif event.output:
            said.append(event.output.text)
    assert "hello Ada\n" in said


def test_fifty_threads(airlock: Airlock) -> None:
    with ThreadPoolExecutor(50) as pool:
        outputs = pool.map(lambda i: airlock.run(f"print({i})").check().stdout, range(50))
    assert list(outputs) == [f"{i}\n" for i in range(50)]


def test_async() -> None:
    async def main() -> None:
        async with AsyncAirlock() as airlock:
            runs = await asyncio.gather(*(airlock.run(f"print({i})") for i in range(20)))
            assert [r.stdout for r in runs] == [f"{i}\n" for i in range(20)]
            async with await airlock.session() as session:
                assert [e.type async for e in session.stream("1")] == ["started", "result", "done"]
                cell = await session.cell("open('a', 'w').write('b')")
                assert await cell.file("a").read() == b"b"

    asyncio.run(main())


class Answers(BaseHTTPRequestHandler):
    """A service that gives its answers in turn."""

    answers: list[tuple[int, dict[str, str], str]]

    asked = ""

    def do_GET(self) -> None:
        Answers.asked = self.path
        status, headers, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def fake() -> Iterator[Any]:
    started = []

    def serve(*answers: tuple[int, dict[str, str], str]) -> Airlock:
        handler = type("Handler", (Answers,), {"answers": list(answers)})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started.append(server)
        return Airlock(f"http://127.0.0.1:{server.server_port}")

    yield serve
    for server in started:
        server.shutdown()


RUN = {
    "id": "i", "session": "s", "language": "python", "status": "a status to come", "exit_code": 0, "signal": None,
    "stdout": "", "stderr": "", "truncated": False, "duration_ms": 1, "cpu_ms": 1, "memory_peak_bytes": 1, "files": [],
    "code_kept": True, "created_at": "2026-01-01T00:00:00.000Z", "a_field_to_come": {"x": 1},
}  # fmt: skip


def refusal(code: str) -> str:
    return json.dumps({"error": {"code": code, "message": "m", "hint": "h", "request_id": "r"}})


def test_waits_for_room(fake: Any) -> None:
    busy = (429, {"Retry-After": "1"}, refusal("busy"))
    run = fake(busy, busy, (200, {}, json.dumps({**RUN, "status": "ok"}))).get_run("i")
    assert run.ok
    with pytest.raises(errors.Busy, match="m\nhint: h"):
        fake((429, {}, refusal("busy"))).get_run("i")  # it does not say that it will have room
    began = time.monotonic()
    with pytest.raises(errors.TooLarge):
        fake((429, {"Retry-After": "3600"}, refusal("quota_exceeded"))).get_run("i")
    assert time.monotonic() - began < 10


def test_a_newer_service(fake: Any) -> None:
    assert fake((200, {}, json.dumps({**RUN, "status": "ok"}))).get_run("i").ok


def test_a_connection_that_was_closed() -> None:
    body = json.dumps({**RUN, "status": "ok"})

    class Handler(Answers):
        protocol_version = "HTTP/1.1"  # which keeps a connection, unless it says otherwise

        def do_GET(self) -> None:
            super().do_GET()
            self.close_connection = True

    Handler.answers = [(200, {"Content-Length": str(len(body))}, body)]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Airlock(f"http://127.0.0.1:{server.server_port}") as airlock:
        for _ in range(3):
            assert airlock.get_run("i").ok
            idle = airlock._http._idle  # type: ignore[union-attr]
            select.select([c.sock for c in idle], [], [], 10)  # until it is closed
    server.shutdown()


def test_an_address_with_a_path(fake: Any) -> None:
    with fake((200, {}, json.dumps({**RUN, "status": "ok"}))) as airlock:
        airlock._server += "/below"
        airlock.get_run("i")
        assert Answers.asked == "/below/api/v1/runs/i"


def test_another_service(fake: Any) -> None:
    with pytest.raises(errors.Unavailable, match="no Airlock service: 502 <html>"):
        fake((502, {}, "<html>")).get_run("i")
    with pytest.raises(errors.Unavailable, match="does not answer"):
        Airlock("http://127.0.0.1:1").get_run("i")


def test_nobody_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRLOCK_SERVER")
    with pytest.raises(errors.NoService, match="no service listens"):
        Airlock(data=tmp_path, start=False).get_run("i")


def test_notebook() -> None:
    pytest.importorskip("IPython")
    code = """
from IPython.testing.globalipapp import start_ipython
from IPython.utils.capture import capture_output
shell = start_ipython()
shell.run_line_magic("load_ext", "airlock_run")
shell.run_cell_magic("airlock", "", "x = 20")
with capture_output() as shown:
    shell.run_cell_magic("airlock", "", "print('said'); import pylab; pylab.plot([1])\\npylab.show()")
print(shown.stdout.strip(), [sorted(o.data) for o in shown.outputs])
shell.run_cell_magic("airlock", "bash", "echo $((6 * 7))")
shell.run_cell("from airlock_run import Airlock")
shell.push({"drawing": "import pylab; pylab.plot([1]); pylab.savefig('f.png')"})
shell.run_cell("run = Airlock().run(drawing)")
with capture_output() as shown:
    run = shell.user_ns["run"]
    run._ipython_display_()
print([sorted(o.data) for o in shown.outputs])
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == 0, said.stderr
    assert "said" in said.stdout
    assert "'image/png'" in said.stdout.splitlines()[0]
    assert "42" in said.stdout
    assert "[['image/png', 'text/plain'], ['text/plain']]" in said.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fan_out.py", "9880\n"),
        ("loop.py", "2\n[0, 1, 2]\nZeroDivisionError: division by zero\n"),
        ("pandas_job.py", "saved by_region.png"),
    ],
)
def test_examples(name: str, said: str, tmp_path: Path) -> None:
    folder = Path(__file__).parent.parent
    args = [str(folder.parent.parent / "testdata/sales.csv"), str(tmp_path)] if name == "pandas_job.py" else []
    ran = subprocess.run(
        [sys.executable, folder / "examples" / name, *args],
        input="print(1 + 1)\nlist(range(3))\n1/0\n", capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert said in ran.stdout
