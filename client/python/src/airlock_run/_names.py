"""Names of files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._models import File

    # What may be given as a file: the path of one here, or one that is stored.
    Given = str | os.PathLike[str] | File
    # Files of a run: those of a list keep their names; in a mapping each name has a file, or its content.
    Files = Iterable[Given] | Mapping[str, Given | bytes]


def named(files: Files) -> list[tuple[str, Given | bytes]]:
    """Return files with the names that they have in the workspace."""
    if isinstance(files, (str, bytes, os.PathLike)):
        raise TypeError("files is a list of paths, or a mapping of names to paths or bytes")
    if isinstance(files, Mapping):
        return list(files.items())
    return [(os.path.basename(f) if isinstance(f, (str, os.PathLike)) else f.path or f.name, f) for f in files]


def target(folder: str | os.PathLike[str], path: str) -> Path:
    """Return where a program's file belongs below a folder. Its path is the program's: it may not lead out."""
    parts = PurePosixPath(path).parts
    at = Path(folder).joinpath(*parts)
    if not parts or ".." in parts or path.startswith("/") or not at.resolve().is_relative_to(Path(folder).resolve()):
        raise ValueError(f"the path {path!r} leads out of {folder}")
    return at
