"""The environments in Gymnasium's registry.

Gymnasium calls `register` when it is imported (the entry point ``gymnasium.envs``), and the package
calls it when it is imported after Gymnasium.
"""

from __future__ import annotations

import sys


def register() -> None:
    """Register the environments under their own names, such as ``llvm-v0``."""
    registration = sys.modules["gymnasium.envs.registration"]
    for name in ("llvm-v0", "toy-v0"):
        registration.registry.setdefault(
            name,
            registration.EnvSpec(
                id=name,
                entry_point="steplake.env:CompilerEnv",
                vector_entry_point="steplake.vector:CompilerVectorEnv",
                kwargs={"environment": name},
            ),
        )
