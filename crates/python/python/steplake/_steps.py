"""The steps that a session took, as an environment returns them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steplake.env import CompilerEnv


def taken(
    env: CompilerEnv,
    actions: list[int],
    steps: list[Any],
    values: list[Any],
    observation_spaces: Sequence[str] | None,
    reward_spaces: Sequence[str] | None,
) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
    """Note the steps that a session took, and return what `CompilerEnv.step` returns."""
    state, _changed, ends, new_space, error, _rewards, _seconds = (
        steps[-1] if steps else (env._state_id, False, False, False, None, [], 0.0)
    )
    failed = error is not None
    done = steps[:-1] if failed else steps
    sums = [sum(rewards) for rewards in zip(*(step[5] for step in done), strict=True)]
    sums = sums or [0.0] * len(env._reward_names)
    env.actions += actions[: len(steps)]
    env._state_id, env._rewards = state, sums
    env._missing = env._on_request - env._wanted
    env.compiler_seconds = sum(step[6] for step in steps)
    place = None if env._rewarded is None else env._reward_place(env._rewarded)
    own = 0.0 if place is None else sums[place]
    env.step_rewards = [] if place is None else [step[5][place] for step in done]
    if own != own:  # NaN
        env._demand_reward()
    env.episode_reward += own
    if not failed and (values or env._observed is None):
        env._last = env._observation(values)
    observation: Any = copy.copy(env._last)
    if observation_spaces is not None:
        # After an error, some are missing.
        seen = values[len(env._places(env._observed)) :]
        seen += [None] * (len(observation_spaces) - len(seen))
        specs = [env._spec_of(name) for name in observation_spaces]
        observation = [spec.shown(value) for spec, value in zip(specs, seen, strict=True)]
    reward: Any = own
    if reward_spaces is not None:
        reward = [sums[env._reward_place(name)] for name in reward_spaces]
    info = {
        "state_id": state,
        "action_had_no_effect": not failed and not any(step[1] for step in steps),
        "new_action_space": new_space,
    }
    if failed:
        info["error"] = error
    return observation, reward, ends, False, info
