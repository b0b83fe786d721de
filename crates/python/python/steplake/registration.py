"""The environments in Gymnasium's registry, without an import of Gymnasium.

``gymnasium.make("steplake:llvm-v0")`` imports this package, and then looks for ``llvm-v0`` in the
registry. If the package was imported before Gymnasium, it has to register later: right after
Gymnasium.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from steplake import _steplake

#: The last module that ``import gymnasium`` needs before there is a registry.
_REGISTRY = "gymnasium.envs"


def register() -> None:
    """Register the environments under their own names, such as ``llvm-v0``."""
    registration = sys.modules["gymnasium.envs.registration"]
    own = [(name, "env:CompilerEnv") for name in _steplake.environments()]
    for name, module in [*own, ("replay-v0", "replay:ReplayEnv")]:
        registration.registry.setdefault(
            name,
            registration.EnvSpec(
                id=name,
                entry_point=f"steplake.{module}",
                vector_entry_point="steplake.vector:CompilerVectorEnv",
                # As long as those of `steplake.generate`; ``max_episode_steps=-1`` sets no end.
                max_episode_steps=_steplake.EPISODE_LENGTH,
                kwargs={"environment": name},
            ),
        )


class _Loader:
    """Loads Gymnasium's registry as usual, and then registers."""

    def __init__(self, usual: Any) -> None:
        self._usual = usual

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._usual.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._usual.exec_module(module)
        register()


class _Finder:
    """Finds Gymnasium's registry once, for `_Loader`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


def register_with_gymnasium() -> None:
    """Register now, or when Gymnasium is imported."""
    if _REGISTRY in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _Finder())
