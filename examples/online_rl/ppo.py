"""PPO in one file: everything that it does to learn is here, in the order in which it happens.

    python examples/online_rl/ppo.py OUTPUT [--steps 500000] [--seed 0]

Proximal policy optimisation (arXiv 1707.06347) with generalised advantages (arXiv 1506.02438).
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Generator

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import nn

from judge import Policy
from setting import PassOrdering
from training import Checkpoint, Setting, main

HIDDEN = 256
ROLLOUT_STEPS = 45  # in each environment: as long as an episode
EPOCHS, MINIBATCHES = 4, 4
RATE, RATE_AT_END = 1e-3, 1e-4
DISCOUNT, SMOOTHING = 0.9, 0.95
CLIP = 0.2
ENTROPY, ENTROPY_AT_END = 0.01, 0.001
VALUE_WEIGHT = 0.5
GRADIENT_NORM_MAX = 0.5


class Agent(nn.Module):
    """A network that scores actions, and one that says what a state is worth."""

    def __init__(self, width: int, actions: int) -> None:
        super().__init__()
        self.actor = layers(width, actions, last_gain=0.01)
        self.critic = layers(width, 1, last_gain=1.0)

    def look(self, seen: torch.Tensor) -> tuple[torch.distributions.Categorical, torch.Tensor]:
        """Return the chances of the actions, and the values."""
        return torch.distributions.Categorical(logits=self.actor(seen)), self.critic(seen)[..., 0]


def layers(width: int, outputs: int, last_gain: float) -> nn.Sequential:
    """Return a network of two hidden layers, with orthogonal weights to begin with."""
    net = nn.Sequential(
        nn.Linear(width, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(),
        nn.Linear(HIDDEN, outputs),
    )  # fmt: skip
    for layer in net[::2]:
        nn.init.orthogonal_(layer.weight, last_gain if layer is net[-1] else 2**0.5)
        nn.init.zeros_(layer.bias)
    return net


def advantages(
    rewards: torch.Tensor, values: torch.Tensor, ends: torch.Tensor, value_after: torch.Tensor
) -> torch.Tensor:
    """Return the generalised advantage of each action, shape (steps, environments).

    Parameters
    ----------
    rewards, values, ends : torch.Tensor, shape (steps, environments)
        The reward of each action, the value of the state where it was taken, and 1 where it ended
        the episode.
    value_after : torch.Tensor, shape (environments,)
        The values of the states after the last actions.
    """
    found = torch.zeros_like(rewards)
    later = torch.zeros_like(value_after)
    for step in reversed(range(len(rewards))):
        goes_on = 1 - ends[step]
        surprise = rewards[step] + DISCOUNT * goes_on * value_after - values[step]
        later = found[step] = surprise + DISCOUNT * SMOOTHING * goes_on * later
        value_after = values[step]
    return found


def learn(setting: Setting) -> Generator[Checkpoint]:
    """Learn, and yield a checkpoint after each update."""
    with contextlib.closing(setting.vector(AutoresetMode.SAME_STEP)) as vector:
        yield from learn_in(vector, setting.steps, setting.seed)


def learn_in(vector: PassOrdering, steps: int, seed: int) -> Generator[Checkpoint]:
    """Learn in these environments, for about so many steps."""
    # One thread: equal seeds give equal networks, and the cores are left to the compilers.
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    (width,), actions = vector.single_observation_space.shape, int(vector.single_action_space.n)
    agent = Agent(width, actions)
    optimiser = torch.optim.Adam(agent.parameters(), eps=1e-5)
    shape = (ROLLOUT_STEPS, vector.num_envs)
    seen, taken = torch.zeros(*shape, width), torch.zeros(shape, dtype=torch.long)
    chances, rewards, ends, values = torch.zeros(4, *shape)
    now = torch.as_tensor(vector.reset(seed=seed)[0])
    updates = math.ceil(steps / (ROLLOUT_STEPS * vector.num_envs))

    for update in range(updates):
        # Play with the present policy.
        for step in range(ROLLOUT_STEPS):
            with torch.no_grad():
                policy, values[step] = agent.look(now)
                action = policy.sample()
            seen[step], taken[step], chances[step] = now, action, policy.log_prob(action)
            shown, reward, ended, _, _ = vector.step(action.numpy())
            now, rewards[step] = torch.as_tensor(shown), torch.as_tensor(reward)
            ends[step] = torch.as_tensor(ended)
        with torch.no_grad():
            gained = advantages(rewards, values, ends, agent.look(now)[1])

        # Improve it, and the values.
        done = update / updates
        optimiser.param_groups[0]["lr"] = RATE + done * (RATE_AT_END - RATE)
        entropy_weight = ENTROPY + done * (ENTROPY_AT_END - ENTROPY)
        rows = [x.flatten(0, 1) for x in (seen, taken, chances, gained, gained + values)]
        for _ in range(EPOCHS):
            for chosen in torch.randperm(len(rows[0])).chunk(MINIBATCHES):
                loss = loss_of(agent, *(x[chosen] for x in rows), entropy_weight)
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), GRADIENT_NORM_MAX)
                optimiser.step()
        yield Checkpoint(
            (update + 1) * seen[..., 0].numel(), lambda: greedy(agent), vector.finished
        )


def loss_of(
    agent: Agent,
    seen: torch.Tensor,
    taken: torch.Tensor,
    chances: torch.Tensor,
    gained: torch.Tensor,
    returns: torch.Tensor,
    entropy_weight: float,
) -> torch.Tensor:
    """Return the loss of PPO for some of the actions that were taken."""
    policy, values = agent.look(seen)
    ratio = (policy.log_prob(taken) - chances).exp()
    gained = (gained - gained.mean()) / (gained.std() + 1e-8)
    kept = torch.minimum(gained * ratio, gained * ratio.clamp(1 - CLIP, 1 + CLIP))
    wrong = 0.5 * (values - returns).square()
    return (VALUE_WEIGHT * wrong - kept - entropy_weight * policy.entropy()).mean()


def greedy(agent: Agent) -> Policy:
    """Return the policy that takes the most likely action, as the agent is now."""
    actor = copy.deepcopy(agent.actor)

    @torch.no_grad()
    def act(seen: np.ndarray) -> np.ndarray:
        chosen: np.ndarray = actor(torch.as_tensor(seen)).argmax(dim=1).numpy()
        return chosen

    return act


if __name__ == "__main__":
    main(__doc__, {"ppo": learn})
