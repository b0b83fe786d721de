"""PPO, APPO, IMPALA and DQN of RLlib, on its current stack.

    python examples/online_rl/rllib.py OUTPUT [--algorithm impala] [--steps 500000] [--seed 0]

RLlib's processes are told to use two cores together. The environments work in the process of the
learner, so that one seed gives one result; IMPALA and APPO, which are made for many machines, play
and learn in turns here.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Generator
from typing import Any

import gymnasium
import numpy as np
import ray
import torch
from gymnasium.vector import AutoresetMode
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

from judge import Policy
from setting import EPISODE_STEPS
from training import Checkpoint, Learner, Setting, main

ENVIRONMENT = "pass-ordering"


def ppo(setting: Setting) -> AlgorithmConfig:
    """Return the settings of PPO."""
    return PPOConfig().training(
        train_batch_size_per_learner=EPISODE_STEPS * setting.envs,
        minibatch_size=2 * EPISODE_STEPS,
        num_epochs=4,
        lr=1e-3,
        entropy_coeff=0.01,
        vf_clip_param=10.0,
    )


def impala(setting: Setting) -> AlgorithmConfig:
    """Return the settings of IMPALA."""
    return IMPALAConfig().training(
        train_batch_size_per_learner=EPISODE_STEPS * setting.envs, lr=5e-4, entropy_coeff=0.01
    )


def appo(setting: Setting) -> AlgorithmConfig:
    """Return the settings of APPO."""
    return APPOConfig().training(
        train_batch_size_per_learner=EPISODE_STEPS * setting.envs, lr=5e-4, entropy_coeff=0.01
    )


def dqn(setting: Setting) -> AlgorithmConfig:
    """Return the settings of DQN, which explores less and less over a third of the steps."""
    return DQNConfig().training(
        train_batch_size_per_learner=128,
        lr=5e-4,
        n_step=3,
        # Each step is learned from eight times.
        training_intensity=8,
        num_steps_sampled_before_learning_starts=1000,
        target_network_update_freq=1000,
        epsilon=[(0, 1.0), (setting.steps // 3, 0.05)],
    )


def learner(settings_of: Callable[[Setting], AlgorithmConfig]) -> Learner:
    """Return the learner of an algorithm with these settings."""

    def learn(setting: Setting) -> Generator[Checkpoint]:
        torch.set_num_threads(1)
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        register_env(ENVIRONMENT, lambda _options: setting.vector(AutoresetMode.NEXT_STEP))
        algorithm = configured(settings_of(setting), setting).build_algo()
        steps = 0
        try:
            while steps < setting.steps:
                result = algorithm.train()["env_runners"]
                steps = int(result["num_env_steps_sampled_lifetime"])
                yield Checkpoint(steps, lambda: greedy(algorithm), finished(result))
        finally:
            algorithm.stop()
            ray.shutdown()

    return learn


def configured(config: AlgorithmConfig, setting: Setting) -> AlgorithmConfig:
    """Return the settings with what all algorithms have in common."""
    return (
        config.environment(ENVIRONMENT)
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=setting.envs,
            gym_env_vectorize_mode=gymnasium.VectorizeMode.VECTOR_ENTRY_POINT,
            rollout_fragment_length=EPISODE_STEPS,
        )
        .learners(num_learners=0)
        .training(gamma=0.9)
        # A checkpoint once in so many steps, however long they take.
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=1000)
        .rl_module(
            model_config=DefaultModelConfig(fcnet_hiddens=[256, 256], fcnet_activation="relu")
        )
        .debugging(seed=setting.seed, log_level="ERROR")
    )


def finished(result: dict[str, Any]) -> list[float]:
    """Return the mean return of the last episodes, if there are any."""
    mean = float(result.get("episode_return_mean", np.nan))
    return [] if np.isnan(mean) else [mean]


def greedy(algorithm: Algorithm) -> Policy:
    """Return the policy that takes the best action, as the algorithm is now."""
    module = copy.deepcopy(algorithm.get_module())
    assert module is not None

    @torch.no_grad()
    def act(seen: np.ndarray) -> np.ndarray:
        said = module.forward_inference({Columns.OBS: torch.as_tensor(seen)})
        if Columns.ACTIONS in said:
            return np.asarray(said[Columns.ACTIONS])
        return np.asarray(said[Columns.ACTION_DIST_INPUTS].argmax(dim=1))

    return act


if __name__ == "__main__":
    main(
        __doc__,
        {name: learner(of) for name, of in zip(
            ("ppo", "appo", "impala", "dqn"), (ppo, appo, impala, dqn), strict=True
        )},
    )  # fmt: skip
