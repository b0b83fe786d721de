"""PPO and A2C of stable-baselines3.

    python examples/online_rl/sb3.py OUTPUT [--algorithm a2c] [--steps 500000] [--seed 0]

The networks have the layers of the paper's agents, and the discount is that of `ppo.py`.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv

from judge import Policy
from setting import PassOrdering
from training import Checkpoint, Learner, Setting, main

# The layers of the paper's agents.
LAYERS = {"net_arch": [256, 256]}
PPO_OPTIONS = {
    "n_steps": 45,
    "batch_size": 90,
    "n_epochs": 4,
    "gamma": 0.9,
    "learning_rate": 1e-3,
    "ent_coef": 0.01,
}
A2C_OPTIONS = {"n_steps": 15, "gamma": 0.9, "learning_rate": 7e-4, "ent_coef": 0.01}


class Episodes(VecEnv):
    """The environments in the interface of stable-baselines3."""

    def __init__(self, vector: PassOrdering) -> None:
        self.vector = vector
        super().__init__(
            vector.num_envs, vector.single_observation_space, vector.single_action_space
        )

    def reset(self) -> np.ndarray:
        """Begin an episode in every environment."""
        seen, _ = self.vector.reset()
        return seen

    def step_async(self, actions: np.ndarray) -> None:
        """Note the actions: the environments step at once in `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Apply the actions."""
        seen, rewards, ended, _, infos = self.vector.step(self._actions)
        of_each: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for place in np.flatnonzero(ended):
            of_each[place]["terminal_observation"] = infos["final_obs"][place]
        return seen, rewards.astype(np.float32), ended, of_each

    def close(self) -> None:
        """End the environments."""
        self.vector.close()

    # What algorithms do not need of these environments.

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute, which is that of the vector, once for each environment."""
        return [getattr(self.vector, attr_name)] * len(self._places(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: the environments have no attributes of their own."""
        raise NotImplementedError(f"{attr_name} cannot be set")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        """Refuse: the environments have no methods of their own."""
        raise NotImplementedError(f"{method_name} cannot be called")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return that there are no wrappers."""
        return [False] * len(self._places(indices))

    def _places(self, indices: int | Sequence[int] | None) -> Sequence[int]:
        if indices is None:
            return range(self.num_envs)
        return [indices] if isinstance(indices, int) else indices


def learner(algorithm: type[BaseAlgorithm], options: dict[str, Any]) -> Learner:
    """Return the learner of an algorithm with these options."""

    def learn(setting: Setting) -> Generator[Checkpoint]:
        torch.set_num_threads(1)
        with contextlib.closing(setting.vector(AutoresetMode.SAME_STEP)) as vector:
            vector.reset(seed=setting.seed)
            model: Any = algorithm(
                "MlpPolicy",
                Episodes(vector),
                seed=setting.seed,
                policy_kwargs=LAYERS,
                device="cpu",
                **options,
            )
            # As many steps as are between two updates, and at least a thousand.
            batch = model.n_steps * vector.num_envs
            batch *= math.ceil(1000 / batch)
            while model.num_timesteps < setting.steps:
                model.learn(batch, reset_num_timesteps=False)
                yield Checkpoint(model.num_timesteps, lambda: greedy(model.policy), vector.finished)

    return learn


def greedy(policy: ActorCriticPolicy) -> Policy:
    """Return the policy that takes the most likely action, as it is now."""
    weights = io.BytesIO()
    policy.save(weights)
    weights.seek(0)
    frozen = ActorCriticPolicy.load(weights, device="cpu")
    return lambda seen: frozen.predict(seen, deterministic=True)[0]


if __name__ == "__main__":
    main(__doc__, {"ppo": learner(PPO, PPO_OPTIONS), "a2c": learner(A2C, A2C_OPTIONS)})
