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
    reward_space : str or None
        The name of the reward space; none if rewards are 0.
    reward : float
        The sum of the rewards in that space.
    """

    benchmark: str
    action_space: str
    actions: tuple[int, ...]
    state_id: str | None
    reward_space: str | None
    reward: float


@dataclass(frozen=True)
class ValidationResult:
    """Whether an episode led to the same state when it was played again.

    Attributes
    ----------
    state : EnvState
        Where the episode led.
    errors : tuple of str
        What is wrong, a line for each difference.
    semantics_checked : bool
        Whether what the program does was compared with what it does untouched.
    remarks : tuple of str
        Why that was not compared, or what limits the comparison. Where the compiler failed, there
        is no program to run, and no remark.
    """

    state: EnvState
    errors: tuple[str, ...] = field(default=())
    semantics_checked: bool = False
    remarks: tuple[str, ...] = field(default=())

    def okay(self) -> bool:
        """Return whether nothing differed."""
        return not self.errors
