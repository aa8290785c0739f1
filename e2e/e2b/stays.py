"""What E2B's SDK does with pauses, snapshots and forks of files. Usage: stays.py make|look STATE.
make leaves sandboxes in STATE, and look finds them after a restart of the service."""
import json
import sys
import time

import httpx
from e2b import NotFoundException, SandboxException, SandboxQuery, SandboxState, Volume, VolumeException
from e2b_code_interpreter import Sandbox

phase, state = sys.argv[1], sys.argv[2]


def refused(do, *words, kind=SandboxException):
    try:
        do()
    except kind as e:
        assert all(word in str(e) for word in words), e
        return
    raise AssertionError("it was not refused")


def ids(**query):
    paginator, found = Sandbox.list(query=SandboxQuery(**query)), []
    while paginator.has_next:
        found += [s.sandbox_id for s in paginator.next_items()]
    return found


if phase == "make":
    # Volumes.
    volume = Volume.create("shared")
    assert Volume.connect(volume.volume_id).name == "shared" and [v.name for v in Volume.list()] == ["shared"]
    refused(lambda: Volume.create("a/b"), "no path", kind=VolumeException)
    refused(lambda: Sandbox.create(volume_mounts={"/mnt/x": "other"}), "no volume other")
    with Sandbox.create(volume_mounts={"/mnt/shared": volume}) as writer:
        writer.commands.run("echo kept > /mnt/shared/a.txt")
        with Sandbox.create(volume_mounts={"/mnt/shared": "shared"}) as second:
            refused(lambda: second.commands.run("true"), "in use")
        refused(lambda: Volume.destroy(volume.volume_id), "in use", kind=VolumeException)
    with Sandbox.create(volume_mounts={"/volumes/x": "shared"}) as reader:
        told = reader.run_code("print(open('/volumes/x/a.txt').read())")
        assert "".join(told.logs.stdout) == "kept\n\n", told
    with Sandbox.create(volume_mounts={"/mnt/shared": "shared"}) as every:  # each language has it
        for language, code in (
            ("python", "open('/mnt/shared/python', 'w').close()"),
            ("javascript", "require('fs').writeFileSync('/mnt/shared/javascript', '')"),
            ("typescript", "require('fs').writeFileSync('/mnt/shared/typescript', '')"),
            ("bash", "touch /mnt/shared/bash"),
        ):
            told = every.run_code(code, language=language)
            assert told.error is None and every.files.exists("/mnt/shared/" + language), (language, told)
        f = every.files
        assert f.get_info("/mnt/shared/bash").owner == "user"
        assert f.write("/mnt/shared/d/one", "1" * 100_000).path == "/mnt/shared/d/one" and len(f.read("/mnt/shared/d/one")) == 100_000
        every.commands.run("chmod 600 /mnt/shared/d/one")
        f.write("/mnt/shared/d/one", "new")
        assert (f.read("/mnt/shared/d/one"), f.get_info("/mnt/shared/d/one").mode) == ("new", 0o600)
        assert f.make_dir("/mnt/shared/e") and not f.make_dir("/mnt/shared/e") and f.rename("/mnt/shared/d/one", "/mnt/shared/e/f/two")
        assert f.rename("/mnt/shared/e/f/two", "moved").path == "/home/user/moved" and f.rename("moved", "/mnt/shared/back")
        f.remove("/mnt/shared/d")
        f.remove("/mnt/shared/d")
        assert sorted(e.name for e in f.list("/mnt/shared") if e.name in "d e back") == ["back", "e"]
        assert every.commands.run("ls -A /mnt/shared /mnt/shared/e | grep -c airlock || true").stdout == "0\n"
        for path in ("/mnt/shared", "/mnt/other", "/mnt/shared/back/x"):
            refused(lambda: f.write(path, "x"), "")
        refused(lambda: f.remove("/mnt/shared"), "cannot be changed")

        def cut():
            yield b"part"
            time.sleep(0.5)
            raise ConnectionError  # a client that leaves in the middle

        try:
            httpx.post(every.upload_url("/mnt/shared/cut"), content=cut(), headers={"Content-Type": "application/octet-stream"})
        except ConnectionError:
            pass
        every.commands.run("while ls -A /mnt/shared | grep -q airlock; do sleep 0.1; done; test ! -e /mnt/shared/cut")
    assert Volume.destroy(volume.volume_id) is True and Volume.destroy(volume.volume_id) is False

    s = Sandbox.create(timeout=600, envs={"NAME": "n"}, metadata={"test": "stays"})
    context = s.create_code_context(cwd="/tmp")

    # Ten cycles of pause and resume, with changes between; every file is compared each time.
    want = {}
    for i in range(10):
        want[f"f{i}.txt"] = f"{i}" * 100
        want["same.txt"] = f"cycle {i}"
        s.files.write(f"f{i}.txt", want[f"f{i}.txt"])
        s.run_code(f"open('/home/user/same.txt', 'w').write('cycle {i}'); x = {i}")
        s.commands.run(f"rm -f f{i - 3}.txt")
        want.pop(f"f{i - 3}.txt", None)
        refused(lambda: s.pause(), "501", "memory")
        assert s.pause(mode="filesystem") is True
        assert s.pause(mode="filesystem") is False
        assert ids(state=[SandboxState.PAUSED]) == [s.sandbox_id] and ids(state=[SandboxState.RUNNING]) == []
        assert not s.is_running()
        s = s.connect(timeout=600)
        got = {f.name: s.files.read(f.path) for f in s.files.list("/home/user")}
        assert got == want, (i, got, want)
        assert "NameError" in str(s.run_code("x").error)
        assert s.run_code("import os; os.environ['NAME']").text == "n"
    assert s.get_info().metadata == {"test": "stays"}

    # Snapshots.
    refused(lambda: s.create_snapshot(mode="full"), "400", "memory")
    first = s.create_snapshot(name="stays")
    assert first.names == ["stays"]
    s.files.write("same.txt", "later")
    for template in (first.snapshot_id, "stays"):
        with Sandbox.create(template, envs={"MORE": "m"}) as copy:
            assert copy.files.read("same.txt") == "cycle 9"
            assert copy.run_code("import os; os.environ['NAME'] + os.environ['MORE']").text == "nm"
            copy.files.write("same.txt", "its own")
    assert s.files.read("same.txt") == "later"
    listed = s.list_snapshots().next_items()
    assert [x.snapshot_id for x in listed] == [first.snapshot_id], listed
    assert [x.snapshot_id for x in Sandbox.list_snapshots().next_items()] == [first.snapshot_id]
    assert Sandbox.delete_snapshot(first.snapshot_id) is True
    assert Sandbox.delete_snapshot(first.snapshot_id) is False
    refused(lambda: Sandbox.create(first.snapshot_id), "404")

    # Forks.
    forks = s.fork(count=3, timeout=600)
    for n, fork in enumerate(forks):
        assert fork.sandbox_id != s.sandbox_id, fork
        assert fork.files.read("same.txt") == "later" and fork.get_info().metadata == {"test": "stays"}
        fork.files.write("same.txt", str(n))
        assert "NameError" in str(fork.run_code("x").error)
    assert [f.files.read("same.txt") for f in forks] == ["0", "1", "2"] and s.files.read("same.txt") == "later"
    for fork in forks[1:]:
        assert fork.kill()
    forks[0].pause(mode="filesystem")
    s.commands.run("while true; do echo x >> between.txt; sleep 0.05; done", background=True)
    while not s.files.exists("between.txt"):  # it is stored with the files that the next cell leaves
        time.sleep(0.01)
    s.run_code("x = 5", context=context)
    json.dump({"id": s.sandbox_id, "paused": forks[0].sandbox_id, "context": context.id}, open(state, "w"))
else:
    kept = json.load(open(state))
    assert sorted(ids()) == sorted([kept["id"], kept["paused"]]), (ids(), kept)
    s = Sandbox.connect(kept["id"])
    assert s.files.read("same.txt") == "later" and "x" in s.files.read("between.txt")
    assert s.run_code("import os; os.environ['NAME']").text == "n"
    context = next(c for c in s.list_code_contexts() if c.id == kept["context"])
    told = s.run_code("import os; (os.getcwd(), 'x' in globals())", context=context)
    assert told.text == "('/tmp', False)", told
    assert s.run_code("{'a': 1}").results[0].json == {"a": 1}  # the displays of this protocol
    assert ids(state=[SandboxState.PAUSED]) == [kept["paused"]]
    resumed = Sandbox.connect(kept["paused"])
    assert resumed.files.read("same.txt") == "0"
    assert resumed.kill() and s.kill()
    refused(lambda: Sandbox.connect(kept["paused"]), "not found", kind=NotFoundException)
print(phase, "ok")
