"""Where an environment is, and whether it gets there again."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class EnvState:
    """Where an environment is: a benchmark, and the actions since its initial state.

    Attributes
    ----------
    benchmark : str
        The URI of the benchmark.
    action_space : str
        The name of the action space.
    actions : tuple of int
        The actions.
    state_id : str or None
        The id of the state, 40 hexadecimal digits; none after a failure of the compiler.
    reward : float
        The sum of the rewards in the environment's reward space.
    """

    benchmark: str
    action_space: str
    actions: tuple[int, ...]
    state_id: str | None
    reward: float


@dataclass(frozen=True)
class ValidationResult:
    """Whether an episode led to the same state when it was played again."""

    state: EnvState
    errors: tuple[str, ...] = field(default=())

    def okay(self) -> bool:
        """Return whether everything was the same."""
        return not self.errors
