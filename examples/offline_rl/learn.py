"""Two ways to learn from a lake: Q-learning, and behaviour cloning as its baseline.

Both end in a network that scores every action in a state, and nothing here runs a compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import nn

from plan import Learning
from transitions import Transitions, features


class Scores(nn.Module):
    """A network from the features of states to one score for each action.

    The score is the sum of a number for the state and one for the action there.
    """

    def __init__(self, sample: torch.Tensor, actions: int, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", sample.mean(dim=0))
        self.register_buffer("spread", sample.std(dim=0).clamp(min=1e-3))
        self.trunk = nn.Sequential(
            nn.Linear(sample.shape[1], width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.LayerNorm(width),
            nn.ReLU(),
        )
        self.state_head = nn.Linear(width, 1)
        self.action_head = nn.Linear(width, actions)

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        hidden = self.trunk(((seen - self.mean) / self.spread).clamp(-5, 5))
        advantage = self.action_head(hidden)
        return self.state_head(hidden) + advantage - advantage.mean(dim=1, keepdim=True)


def gains(tr: Transitions) -> torch.Tensor:
    """Return each transition's reward: the logarithm of the cost before over the cost after.

    Along an episode they add up to the logarithm of the whole reduction, and a mean over programs
    becomes a geometric mean. The scale of a program does not matter.
    """
    cost = tr.cost.clamp(min=1).log()
    return (cost[tr.state] - cost[tr.next_state]).float()


def learn_q(tr: Transitions, actions: int, how: Learning, seed: int) -> Scores:
    """Learn the values of actions by fitted Q iteration with a conservative penalty.

    The value of an action is its reward and the discounted value of the next state, which is that
    of the best action there. An episode may stop anywhere, so no state is worth less than 0. An
    action that changes nothing is worth nothing. Each round computes the values of all states once
    and then fits the network to them. The penalty (that of conservative Q-learning, arXiv
    2006.04779) pushes down the scores of actions that were never tried, which nothing else does.
    """
    torch.manual_seed(seed)
    seen = features(tr.autophase, tr.instcount, tr.history)
    gain, is_change = gains(tr), tr.state != tr.next_state
    net = Scores(seen, actions, how.width)
    value = torch.zeros(len(seen))

    def loss(rows: torch.Tensor) -> torch.Tensor:
        scores = net(seen[tr.state[rows]])
        taken = scores.gather(1, tr.action[rows, None])[:, 0]
        later = value[tr.next_state[rows]] * is_change[rows]
        highest = how.softness * (scores / how.softness).logsumexp(dim=1)
        wrong = nn.functional.smooth_l1_loss(taken, gain[rows] + how.discount * later)
        return wrong + how.caution * (highest - taken).mean()

    for _ in descend(net, loss, len(tr.state), how):
        value = best_scores(net, seen).clamp(min=0)
    return net


def best_scores(net: Scores, seen: torch.Tensor) -> torch.Tensor:
    """Return the highest score in each state."""
    with torch.no_grad():
        return torch.cat([net(part).max(dim=1).values for part in seen.split(4096)])


def learn_clone(tr: Transitions, actions: int, how: Learning, seed: int) -> Scores:
    """Learn to take the action that begins the best recorded way from a state.

    That is the way to the lowest recorded cost, over all episodes. States from which nothing
    better was recorded say nothing, and are left out.
    """
    torch.manual_seed(seed)
    rows_with_a_way = (tr.first_action >= 0).nonzero()[:, 0]
    seen = features(tr.autophase, tr.instcount, tr.history)[rows_with_a_way]
    wanted = tr.first_action[rows_with_a_way]
    net = Scores(seen, actions, how.width)

    def loss(rows: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(net(seen[rows]), wanted[rows])

    for _ in descend(net, loss, len(seen), how):
        pass
    return net


def descend(
    net: Scores, loss: Callable[[torch.Tensor], torch.Tensor], rows: int, how: Learning
) -> Iterator[int]:
    """Minimise a loss over batches of row numbers, with a rate that rises, and falls to 0.

    It stops after each round, so that the caller can change what the loss compares with.
    """
    optimiser = torch.optim.AdamW(net.parameters(), lr=how.rate, weight_decay=how.decay)
    steps = how.rounds * how.updates
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, how.rate, total_steps=steps + 1)
    for round_number in range(how.rounds):
        for _ in range(how.updates):
            optimiser.zero_grad()
            loss(torch.randint(rows, (how.batch,))).backward()
            optimiser.step()
            schedule.step()
        yield round_number
