"""Calls most of E2B's Python SDK, one call at a time and with nothing left to chance, to
be recorded: see TestE2BExchanges. What the answers mean is client.py's to check."""

from e2b import CommandExitException, NotFoundException, SandboxException, SandboxQuery
from e2b_code_interpreter import Sandbox


def refused(kind, do):
    try:
        do()
    except kind:
        return
    raise AssertionError("no " + kind.__name__)


s = Sandbox.create(envs={"ONE": "it's"}, metadata={"a b": "c&d=ü"}, timeout=600)
s.run_code("1 + 1")
s.run_code("print('ü\\u2028', __import__('os').environ['ONE'])")
s.run_code("{'a': [float('nan')]}")
s.run_code("1 / 0")
s.run_code("input()")
s.run_code("import os; print(os.environ['TWO'])", envs={"TWO": "2"})
s.run_code("import matplotlib.pyplot as plt; plt.bar(['a'], [3]); plt.show()")
s.run_code("import os; os._exit(1)")
refused(SandboxException, lambda: s.run_code("1", language="cobol"))
c = s.create_code_context(cwd="/home/user")
s.run_code("y = 2", context=c)
s.list_code_contexts()
s.restart_code_context(c)
s.remove_code_context(c)
refused(NotFoundException, lambda: s.run_code("y", context=c))
s.run_code("echo $ONE", language="bash")
s.commands.run("echo $A", envs={"A": "b"}, cwd="/home/user")
refused(CommandExitException, lambda: s.commands.run("exit 3"))
refused(SandboxException, lambda: s.commands.run("ls", cwd="/nowhere"))
s.commands.kill(99999)
s.files.write("d/x.txt", "hällo")
s.files.read("d/x.txt")
s.files.write_files([{"path": "d/1", "data": "1"}, {"path": "/home/user/d/2", "data": b"2"}])
s.files.list("d")
s.files.exists("d/none")
s.files.make_dir("d")
s.files.get_info("d/x.txt")
s.files.rename("d/1", "o/1")
s.files.remove("o")
refused(NotFoundException, lambda: s.files.read("none"))
s.files.watch_dir("d", recursive=True).stop()
s.is_running()
s.set_timeout(1000)
s.get_info()
s.get_metrics()
Sandbox.list(query=SandboxQuery(metadata={"a b": "c&d=ü"})).next_items()
Sandbox.connect(s.sandbox_id)
refused(SandboxException, s.pause)
refused(SandboxException, lambda: Sandbox.create(template="none"))
s.kill()
s.kill()
s.is_running()
