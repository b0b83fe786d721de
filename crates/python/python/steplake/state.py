"""Where an environment is, and whether it gets there again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from steplake import _steplake
from steplake.errors import CompilerFailed

if TYPE_CHECKING:
    from steplake.env import CompilerEnv


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


def validated(env: CompilerEnv, state: EnvState, semantics: bool) -> ValidationResult:
    """Play the episode that led to a state in a fresh environment, and close that."""
    errors: list[str] = []
    checked, remarks = False, list[str]()
    try:
        env.reset()
    except CompilerFailed as error:
        errors.append(str(error))
    else:
        env.multistep(state.actions)
        if env._state_id != state.state_id:
            errors.append(f"the state is now {env._state_id}, and was {state.state_id}")
        rewards = env.episode_reward, state.reward
        # A reward whose observation failed is NaN, and is one again.
        if not np.isclose(*rewards, rtol=1e-9, atol=1e-12, equal_nan=True):
            errors.append(f"the reward is now {env.episode_reward}, and was {state.reward}")
        # Where the compiler failed, there is no program to run.
        if semantics and state.state_id is not None:
            program = env.benchmark
            assert program is not None  # There is one after a reset.
            checked, wrong, remarks = _steplake.check_semantics(
                env._core, state.action_space, program, state.actions
            )
            errors += wrong
    finally:
        env.close()
    return ValidationResult(state, tuple(errors), checked, tuple(remarks))
