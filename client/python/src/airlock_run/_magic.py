"""The magics %airlock and %%airlock."""

from __future__ import annotations

import shlex
from typing import Any

from . import _display
from ._sync import Airlock, Cell, Session

USAGE = """%%airlock [LANGUAGE] [-f FILE]...   run the cell in the sandbox; python without LANGUAGE
%airlock server URL [KEY]           use the service at this address
%airlock restart [LANGUAGE]         end the interpreter; files stay
%airlock files                      list the files of the session
%airlock get PATH [FOLDER]          copy a file of the session here"""


class Magics:
    """Sessions of a notebook: one for each language."""

    def __init__(self) -> None:
        self.airlock = Airlock()
        self.sessions: dict[str, Session] = {}

    def session(self, language: str = "python") -> Session:
        """Return the session of a language, which is made at its first use."""
        if language not in self.sessions:
            self.sessions[language] = self.airlock.session(language)
        return self.sessions[language]

    def run(self, line: str, cell: str) -> Cell | None:
        """Run a cell, show its outputs as they come, and return it to the interpreter as the value of `_airlock`."""
        words = shlex.split(line)
        language, files = "python", []
        while words:
            word = words.pop(0)
            if word == "-f" and words:
                files.append(words.pop(0))
            elif not word.startswith("-"):
                language = word
            else:
                raise ValueError(f"{word} is not known here\n{USAGE}")
        session = self.session(language)
        for f in files:
            session.files.put(f)
        made = None
        for event in session.stream(cell):
            if event.output:
                _display.show_output(event.output)
            made = event.cell or made
        if made and made.message:
            print(f"[{made.status}] {made.message}")
        return made

    def line(self, line: str) -> Any:
        """Carry out a line."""
        words = shlex.split(line)
        if words[:1] == ["server"] and 1 < len(words) < 4:
            self.airlock, self.sessions = Airlock(words[1], key=words[2] if len(words) > 2 else None), {}
        elif words[:1] == ["restart"] and len(words) < 3:
            self.session(*words[1:]).restart()
        elif words == ["files"]:
            for entry in self.session().files.list(depth=5):
                print(f"{entry.size:>12,}  {entry.path}{'/' if entry.kind == 'folder' else ''}")
        elif words[:1] == ["get"] and 1 < len(words) < 4:
            return self.session().files.save(*words[1:])
        else:
            print(USAGE)
        return None


def load(shell: Any) -> None:
    """Add the magics to an IPython shell."""
    magics = Magics()

    def run(line: str, cell: str | None = None) -> Any:
        if cell is None:
            return magics.line(line)
        shell.push({"_airlock": magics.run(line, cell)})
        return None

    shell.register_magic_function(run, "line_cell", "airlock")
