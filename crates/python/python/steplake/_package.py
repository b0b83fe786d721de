"""The programs that the package brings along."""

from __future__ import annotations

import importlib.metadata
import os
import threading
from functools import cache
from pathlib import Path

from steplake import _steplake
from steplake.errors import CompilerUnavailable


def program(name: str) -> Path:
    """Return the path of one of the package's own programs, wherever pip put it."""
    for file in importlib.metadata.files("steplake") or ():
        if file.name == name and file.parent.name == "bin":
            return Path(file.locate()).resolve()
    raise CompilerUnavailable(
        f"the package steplake is installed without the program {name}: install its wheel anew"
    )


_beginning = threading.Lock()


def begin(*, is_command: bool = False) -> None:
    """Tell the library of this process where the worker's program is, once."""
    with _beginning:
        _begin(is_command)


@cache
def _begin(is_command: bool) -> None:
    _steplake.begin(program("steplake-worker"), is_command)
    os.register_at_fork(before=_steplake.before_fork)
