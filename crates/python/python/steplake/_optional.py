"""Packages that only some methods need."""

from __future__ import annotations

import importlib
from typing import Any

from steplake.errors import MissingPackage


def package(name: str, method: str, install: str | None = None) -> Any:
    """Import a package that a method needs.

    Parameters
    ----------
    name : str
        The package or module.
    method : str
        The method, for the message.
    install : str, optional
        What pip is to install; by default the package of that name.

    Raises
    ------
    MissingPackage
        If the package, or one that it needs, is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        wanted = install or name.partition(".")[0]
        raise MissingPackage(
            f"`{method}` needs the package {name.partition('.')[0]}: `pip install {wanted}`"
            f" ({error})"
        ) from error
