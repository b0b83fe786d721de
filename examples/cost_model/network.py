"""The gated graph network (Li et al., 2016), as ProGraML has it, in plain PyTorch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from batching import EDGE_KINDS, Batch
from graphs import INSTRUCTION, NODE_TYPES, POSITION_MAX


class Outputs(NamedTuple):
    """What the network says of a batch.

    Attributes
    ----------
    count : torch.Tensor, shape (graphs,)
        The number of instructions.
    reward : torch.Tensor, shape (pairs,)
        The reward of each pair of a state and an action, over the cost of the state.
    best : torch.Tensor, shape (graphs,)
        The best cost within reach, over the cost of the state.
    """

    count: torch.Tensor
    reward: torch.Tensor
    best: torch.Tensor


class MessagePassing(nn.Module):
    """One step: every node hears from its neighbours, and a GRU updates it.

    A message is a linear function of the sender, one for each flow and direction, times a gate that
    depends on the position of the edge: so the first operand is told from the second. Messages are
    averaged: a constant may have a thousand uses. All steps share these weights.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.send = nn.Linear(width, EDGE_KINDS * width)
        self.gate = nn.Linear(width, width)
        self.update = nn.GRUCell(width, width)
        self.register_buffer("waves", waves(POSITION_MAX + 1, width))

    def forward(self, nodes: torch.Tensor, batch: Batch, degree: torch.Tensor) -> torch.Tensor:
        source, target = batch.edge_index
        sent = self.send(nodes).view(-1, self.width)
        gates = 2 * self.gate(self.waves).sigmoid()
        messages = sent[source * EDGE_KINDS + batch.edge_kind] * gates[batch.edge_position]
        heard = torch.zeros_like(nodes).index_add(0, target, messages) / degree
        return self.update(heard, nodes)


def waves(positions: int, width: int) -> torch.Tensor:
    """Return sines and cosines that tell positions apart, shape (positions, width)."""
    rates = torch.exp(-torch.arange(0, width, 2) / width * torch.log(torch.tensor(10_000.0)))
    angles = torch.arange(positions)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)[:, :width]


class CostModel(nn.Module):
    """A network from program graphs to counts, rewards and best costs.

    Parameters
    ----------
    texts, actions : int, int
        The sizes of the vocabulary and of the action space.
    width : int
        The width of the layers that nodes pass through.
    graph_width : int
        The width of what is known of a graph as a whole. It is paid once a graph, not once a node.
    steps : int
        The steps of message passing. With 0, the network sees the nodes and no edge.
    dropout : float
        The share of a graph's features that is dropped while it learns.
    """

    def __init__(
        self,
        texts: int,
        actions: int,
        *,
        width: int,
        graph_width: int,
        steps: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.steps = steps
        self.type_of_node = nn.Embedding(NODE_TYPES, width)
        self.text_of_node = nn.Embedding(texts, width)
        self.passing = MessagePassing(width) if steps else None
        self.readout_gate = nn.Linear(2 * width, width)
        self.readout_value = nn.Linear(2 * width, width)
        self.count = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))
        self.local = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.ReLU())
        self.trunk = nn.Sequential(
            nn.Linear(3 * width + 1, graph_width), nn.ReLU(), nn.Dropout(dropout)
        )
        self.reward = RewardHead(graph_width, actions, graph_width // 2)
        self.reward_of_local = nn.Embedding(actions, 2 * width)
        nn.init.normal_(self.reward_of_local.weight, std=0.01)
        self.best = nn.Sequential(
            nn.Linear(graph_width, graph_width // 2), nn.ReLU(), nn.Linear(graph_width // 2, 1)
        )
        self.best_of_local = nn.Linear(2 * width, 1)

    def embed(self, batch: Batch) -> torch.Tensor:
        """Return what is known of each node before and after message passing, side by side."""
        first = nodes = self.type_of_node(batch.node_type) + self.text_of_node(batch.node_text)
        if self.passing is not None:
            heard = torch.bincount(batch.edge_index[1], minlength=len(nodes))
            degree = heard.clamp(min=1).to(nodes.dtype)[:, None]
            for _ in range(self.steps):
                nodes = self.passing(nodes, batch, degree)
        return torch.cat([nodes, first], 1)

    def forward(self, batch: Batch, state: torch.Tensor, action: torch.Tensor) -> Outputs:
        """Return counts and best costs of all graphs, and the rewards of pairs.

        Parameters
        ----------
        batch : Batch
            The graphs.
        state, action : torch.Tensor, shape (pairs,)
            The number of each pair's graph in the batch, and its action.
        """
        nodes = self.embed(batch)
        # Counts add up over nodes; the other targets are shares, and so are their features.
        count = self.add_up(nn.functional.softplus(self.count(nodes)), batch)[:, 0]
        seen = self.readout_gate(nodes).sigmoid() * self.readout_value(nodes).tanh()
        size = self.add_up(torch.ones_like(nodes[:, :1]), batch)
        # What an action saves is a sum over instructions, over their number: so is this.
        is_instruction = (batch.node_type == INSTRUCTION).to(nodes.dtype)[:, None]
        instructions = self.add_up(is_instruction, batch).clamp(min=1)
        local = self.add_up(self.local(nodes), batch) / instructions
        seen = self.trunk(torch.cat([self.add_up(seen, batch) / size, local, size.log() / 10], 1))
        saved = (self.reward_of_local(action) * local[state]).sum(1)
        best = self.best(seen) + self.best_of_local(local)
        return Outputs(count, self.reward(seen, state, action) + saved, best[:, 0].sigmoid())

    @staticmethod
    def add_up(values: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Return the sums over the nodes of each graph."""
        sums = values.new_zeros(batch.num_graphs, values.shape[1])
        return sums.index_add(0, batch.batch, values)


class RewardHead(nn.Module):
    """The reward of an action in a state: a linear function for each action, and a shared one."""

    def __init__(self, features: int, actions: int, width: int) -> None:
        super().__init__()
        self.weights = nn.Embedding(actions, features)
        self.bias = nn.Embedding(actions, 1)
        self.of_state = nn.Linear(features, width)
        self.of_action = nn.Embedding(actions, width)
        self.together = nn.Linear(width, 1)
        for part in (self.weights, self.bias):
            nn.init.normal_(part.weight, std=0.01)

    def forward(
        self, seen: torch.Tensor, state: torch.Tensor, action: torch.Tensor
    ) -> torch.Tensor:
        linear = (self.weights(action) * seen[state]).sum(1) + self.bias(action)[:, 0]
        mixed = (self.of_state(seen)[state] + self.of_action(action)).relu()
        return linear + self.together(mixed)[:, 0]
