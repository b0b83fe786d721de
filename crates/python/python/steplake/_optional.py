"""Packages that only some methods need, and the extras of steplake that install them."""

from __future__ import annotations

import importlib
from typing import Any

from steplake.errors import MissingPackage

#: The extras, as in ``pyproject.toml``, each with the packages that it is about. A package is named
#: by the extra that comes first.
EXTRAS: dict[str, tuple[str, ...]] = {
    "arrow": ("pyarrow",),
    "polars": ("polars",),
    "pandas": ("pandas", "pyarrow"),
    "graph": ("networkx", "pyarrow"),
    "minari": ("minari", "PIL", "pyarrow"),
    "torch": ("torch",),
}


def package(name: str, purpose: str, extra: str | None = None) -> Any:
    """Import a package that a method needs.

    Parameters
    ----------
    name : str
        The package or module.
    purpose : str
        What needs it, for the message.
    extra : str, optional
        The extra that installs it; by default the first one with it.

    Raises
    ------
    MissingPackage
        If the package, or one that it needs, is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        top = name.partition(".")[0]
        if extra is None:
            extra = next(extra for extra, packages in EXTRAS.items() if top in packages)
        raise MissingPackage(
            f"{purpose} needs the package {top}: `pip install 'steplake[{extra}]'` ({error})"
        ) from error
