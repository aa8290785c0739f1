"""Runs a bash program whose tools are functions. A function leaves its call in
a pipe and waits for the answer in another. Calls that were made together, with
"&", go out together: when every process of the program blocks. A tool that
fails ends the program, wherever it was called: in a pipe or a substitution the
shell would go on with no data."""

import os
import select
import signal
import subprocess
import sys
import tempfile
import time

# How long calls wait for a program that does not block, in seconds.
PATIENCE = 0.25

PRELUDE = r"""
_ptc_n=0
_ptc_call() {
	builtin local _ptc_name=$1 _ptc_id _ptc_answer LC_ALL=C
	builtin shift
	_ptc_n=$((_ptc_n + 1))
	_ptc_id=$BASHPID.$_ptc_n.$RANDOM
	/usr/bin/mkfifo "$_PTC_DIR/$_ptc_id.answer" || builtin return 1
	builtin printf '%s' "${1-"{}"}" >|"$_PTC_DIR/$_ptc_id.input"
	builtin printf '%s\n' "$_ptc_id $# $_ptc_name" >|"$_PTC_DIR/calls"
	_ptc_answer=$(<"$_PTC_DIR/$_ptc_id.answer")
	builtin printf '%s\n' "$_ptc_answer"
}
"""


class Shell:
    def __init__(self, request, path):
        self.channel = Channel()
        self.tools = {tool["function"]: tool["name"] for tool in request["tools"]}
        self.folder = tempfile.mkdtemp(prefix=".ptc-", dir="/tmp")
        put_source(path, request["source"])
        functions = "".join("%s() { _ptc_call %s \"$@\"; }\n" % (name, name) for name in self.tools)
        with open(self.folder + "/tools.sh", "w") as file:
            file.write(PRELUDE.replace("$_PTC_DIR", self.folder) + functions)
        os.mkfifo(self.folder + "/calls")
        self.calls = os.open(self.folder + "/calls", os.O_RDWR | os.O_NONBLOCK)
        self.text = b""  # the beginning of a line
        self.unsent = []  # (id, name, input)
        self.since = 0.0  # the last of them came
        self.waiting = {}  # by number of the message: ids
        self.answers = {}  # by file number: what is still to be written
        self.late = []  # (id, answer, until): nobody reads it yet
        self.poll = select.poll()
        self.poll.register(self.calls, select.POLLIN)
        self.poll.register(self.channel.answers, select.POLLIN)
        self.ended, end = os.pipe()
        os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        self.poll.register(self.ended, select.POLLIN)
        self.program = subprocess.Popen(["/usr/bin/bash", path, *request["args"]], env={**os.environ, "BASH_ENV": self.folder + "/tools.sh"})

    def run(self):
        pause = 0.001
        while self.program.poll() is None:
            timeout = pause if self.unsent else 0.01 if self.late else None
            events = self.poll.poll(None if timeout is None else timeout * 1000)
            for number, _ in events:
                if number == self.calls:
                    self.listen()
                    pause = 0.001
                elif number == self.ended:
                    os.read(self.ended, 512)
                elif number in self.answers:
                    self.write(number)
                else:
                    self.receive()
            for call in self.late[:]:
                self.late.remove(call)
                self.answer(*call)
            if self.unsent:
                if self.still() or time.monotonic() - self.since > PATIENCE:
                    self.send()
                pause = min(pause * 1.5, 0.01)
        code = self.program.returncode
        return code if code >= 0 else 128 - code

    def listen(self):
        """Takes the calls that functions have left. Each writes a line at once."""
        try:
            self.text += os.read(self.calls, 1 << 16)
        except BlockingIOError:
            return
        *lines, self.text = self.text.split(b"\n")
        for line in lines:
            name, count, tool = line.decode("utf-8", "replace").split(" ", 2)
            file = self.folder + "/" + name + ".input"
            try:
                with open(file, "rb") as content:
                    given = content.read(LARGEST + 1)
                os.unlink(file)
            except OSError:
                given = b""
            self.take(name, tool, count, given)

    def take(self, name, tool, count, given):
        usage = "%s: takes one JSON object, as in: %s '{\"key\": \"value\"}'" % (tool, tool)
        try:
            text = given.decode()
            value = json.loads(text)
        except ValueError:
            value = None
        if tool not in self.tools:
            self.fail("%s: is no tool" % tool)
        elif count not in ("0", "1") or not isinstance(value, dict):
            self.fail(usage)
        elif len(given) > LARGEST:
            self.fail("%s: the input is too large" % tool)
        else:
            self.unsent.append((name, self.tools[tool], json.dumps(value)))
            self.since = time.monotonic()

    def processes(self):
        """What each thread of the program has done so far, None while one does
        something."""
        found = {}
        for pid in os.listdir("/proc"):
            if not pid.isdigit() or int(pid) in (1, os.getpid()):
                continue
            try:
                for thread in os.listdir("/proc/%s/task" % pid):
                    with open("/proc/%s/task/%s/stat" % (pid, thread)) as file:
                        state = file.read().rpartition(")")[2].split()[0]
                    if state in "ZX":
                        continue
                    if state not in "STtI":
                        return None
                    with open("/proc/%s/task/%s/status" % (pid, thread)) as file:
                        found[pid, thread] = [line for line in file if "ctxt_switches" in line]
            except OSError:
                return None  # it has just ended
        return found

    def still(self):
        """Reports whether all of the program blocks. Who was asleep at
        both looks and has not been woken between them was asleep all the while,
        and so were all of them at one moment; what they wait for is our answer,
        or a clock."""
        before = self.processes()
        if before is None or before != self.processes():
            return False
        return not select.select([self.calls], [], [], 0)[0]

    def send(self):
        let_out()
        calls, self.unsent = self.unsent, []
        rest = len(calls)
        parts = groups(calls, lambda call: len(call[2]), len(self.waiting))
        if not parts:
            self.fail(TOO_MUCH)
        for part in parts:
            rest -= len(part)
            try:
                number = self.channel.send([call[1:] for call in part], rest > 0)
            except OSError:
                self.fail("Execution failed or timed out")
            self.waiting[number] = [call[0] for call in part]

    def receive(self):
        for number, answers in self.channel.receive():
            if number is None:  # nobody will answer any more
                self.poll.unregister(self.channel.answers)
                if self.waiting:
                    self.fail("Execution failed or timed out")
                return
            names = self.waiting.pop(number, [])
            if not isinstance(answers, list) or len(answers) != len(names):
                answers = [{"error": "Execution failed or timed out"}] * len(names)
            for name, answer in zip(names, answers):
                if "error" in answer:
                    self.fail(answer["error"])
                else:
                    self.answer(name, json.dumps(answer.get("result"), separators=(",", ":"), ensure_ascii=False))

    def fail(self, message):
        """Ends the program, and with it the sandbox."""
        sys.stderr.write(message + "\n")
        self.program.kill()
        raise SystemExit(1)

    def answer(self, name, text, until=None):
        """Gives a function its answer, as soon as it reads."""
        file = self.folder + "/" + name + ".answer"
        try:
            number = os.open(file, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            until = until or time.monotonic() + 5
            if os.path.exists(file) and time.monotonic() < until:
                self.late.append((name, text, until))
            return
        os.unlink(file)
        self.answers[number] = memoryview(text.encode("utf-8", "surrogatepass"))
        self.poll.register(number, select.POLLOUT)
        self.write(number)

    def write(self, number):
        try:
            self.answers[number] = self.answers[number][os.write(number, self.answers[number]):]
        except BlockingIOError:
            return
        except OSError:  # who asked is gone
            self.answers[number] = b""
        if not len(self.answers[number]):
            self.poll.unregister(number)
            del self.answers[number]
            os.close(number)


def drive(main):
    request, _ = read_request()
    raise SystemExit(Shell(request, main["__file__"]).run())


drive(MAIN)
