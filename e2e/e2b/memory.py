"""What E2B's SDK does with sandboxes whose memory is kept. Usage: memory.py make|look STATE.
make leaves sandboxes in STATE, and look finds them after a restart of the service."""
import json
import sys
import time

from e2b import CommandExitException, PtySize, SandboxQuery, SandboxState
from e2b_code_interpreter import Sandbox

phase, state = sys.argv[1], sys.argv[2]


def value(sandbox, code, **more):
    told = sandbox.run_code(code, **more)
    assert told.error is None, told.error.traceback
    return told.text


def states():
    paginator, found = Sandbox.list(query=SandboxQuery()), {}
    while paginator.has_next:
        found |= {s.sandbox_id: s.state for s in paginator.next_items()}
    return found


if phase == "make":
    s = Sandbox.create(timeout=600, envs={"NAME": "n"}, metadata={"test": "memory"})
    assert "gvisor" in s.commands.run("uname -r").stdout

    # What a sandbox does as long as it runs.
    assert value(s, "x = 41; x + 1") == "42"
    assert value(s, "import os; os.environ['NAME']") == "n"
    told = s.run_code("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")
    assert told.results[0].png, told
    assert s.run_code("1 / 0").error.name == "ZeroDivisionError"
    s.files.write("d/a.txt", "from outside")
    assert value(s, "open('/home/user/d/a.txt').read()") == "from outside"
    assert s.commands.run("echo from a command > d/b.txt; cat d/a.txt").stdout == "from outside"
    assert sorted(f.name for f in s.files.list("d")) == ["a.txt", "b.txt"] and s.files.read("d/b.txt") == "from a command\n"
    try:
        s.commands.run("echo out; exit 3")
        raise AssertionError("exit 3 is no error")
    except CommandExitException as e:
        assert (e.exit_code, e.stdout) == (3, "out\n"), e
    echo = s.commands.run("cat", background=True, stdin=True)
    s.commands.send_stdin(echo.pid, "line\n")
    for out, _, _ in echo:
        assert out == "line\n", out
        break
    assert s.commands.kill(echo.pid)
    seen = []
    terminal = s.pty.create(PtySize(rows=24, cols=80), timeout=60)
    s.pty.send_stdin(terminal.pid, b"stty size; echo here > /dev/tty; exit 7\n")
    try:
        terminal.wait(on_pty=lambda data: seen.append(data))
    except CommandExitException as e:
        assert e.exit_code == 7, e
    assert b"24 80" in b"".join(seen) and b"\nhere\r" in b"".join(seen), seen

    # Ten cycles of pause and resume, with changes between: files, variables and processes are compared each time.
    s.commands.run("n=0; while true; do n=$((n+1)); echo $n > /tmp/count; sleep 0.05; done", background=True)
    value(s, "seen = []")
    want = {"d/a.txt": "from outside", "d/b.txt": "from a command\n"}
    for i in range(10):
        want["same.txt"], want[f"f{i}.txt"] = f"cycle {i}", f"{i}" * 100
        s.files.write(f"f{i}.txt", want[f"f{i}.txt"])
        value(s, f"open('/home/user/same.txt', 'w').write('cycle {i}'); seen.append({i})")
        s.commands.run(f"echo {i} > /tmp/t{i}")
        assert s.pause() is True
        assert s.pause() is False and states()[s.sandbox_id] == SandboxState.PAUSED
        s = s.connect(timeout=600)
        assert value(s, "x, seen") == f"(41, {list(range(i + 1))})", (i, value(s, "x, seen"))
        got = {f.path.removeprefix("/home/user/"): s.files.read(f.path) for f in s.files.list("/home/user", depth=2)
               if f.type.value == "file" and f.name != ".bash_history"}
        assert got == want, (i, got, want)
        assert s.commands.run("cat /tmp/t?").stdout == "".join(f"{n}\n" for n in range(i + 1))
        first = int(s.commands.run("cat /tmp/count").stdout or 0)
        value(s, "import time; time.sleep(0.3)")
        assert int(s.commands.run("cat /tmp/count").stdout or first + 1) > first, "the process does not go on"

    # Snapshots, and sandboxes of them.
    full, files = s.create_snapshot(name="full"), s.create_snapshot(mode="filesystem")
    value(s, "x = 1")
    numbers = {value(s, "import random; random.random()")}
    for template in (full.snapshot_id, "full"):
        with Sandbox.create(template, envs={"MORE": "m"}) as copy:
            assert value(copy, "x, len(seen)") == "(41, 10)"
            assert copy.files.read("same.txt") == "cycle 9"
            assert copy.commands.run("echo $NAME$MORE").stdout == "nm\n"
            numbers.add(value(copy, "import random; random.random()"))
    with Sandbox.create(files.snapshot_id) as copy:
        assert "NameError" in str(copy.run_code("x").error) and copy.files.read("same.txt") == "cycle 9"
    assert Sandbox.delete_snapshot(full.snapshot_id) and Sandbox.delete_snapshot(files.snapshot_id)

    # Forks.
    forks = s.fork(count=3, timeout=600)
    for n, fork in enumerate(forks):
        assert value(fork, f"x += {n}; x, len(seen)") == f"({1 + n}, 10)"
        numbers.add(value(fork, "import random; random.random()"))
    assert value(s, "x") == "1" and len(numbers) == 6, numbers
    for fork in forks[1:]:
        assert fork.kill() is True
    assert forks[0].pause() is True
    json.dump({"id": s.sandbox_id, "paused": forks[0].sandbox_id}, open(state, "w"))
else:
    kept = json.load(open(state))
    assert states() == {kept["id"]: SandboxState.RUNNING, kept["paused"]: SandboxState.PAUSED}, states()
    s, resumed = Sandbox.connect(kept["id"]), Sandbox.connect(kept["paused"])
    assert value(s, "x, len(seen)") == value(resumed, "x, len(seen)") == "(1, 10)"
    assert s.files.read("same.txt") == resumed.files.read("same.txt") == "cycle 9"
    assert s.commands.run("cat /tmp/t3").stdout == "3\n"
    assert s.kill() is True and resumed.kill() is True and s.kill() is False
print(phase, "ok")
