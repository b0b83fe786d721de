"""How much of everything: all sizes, of the full form and of the reduced one."""

from __future__ import annotations

from dataclasses import dataclass

from collect import Recording


@dataclass(frozen=True)
class Learning:
    """How to learn.

    Attributes
    ----------
    epochs, batch_nodes : int, int
        The passes over all training states, and the nodes of a batch, at most.
    width, graph_width, steps : int, int, int
        The width of the layers for nodes and of those for graphs, and the steps of message passing.
    rate, decay, dropout : float, float, float
        The highest learning rate, the weight decay, the share of features dropped.
    """

    epochs: int = 12
    batch_nodes: int = 4_000
    width: int = 48
    graph_width: int = 96
    steps: int = 5
    rate: float = 3e-3
    decay: float = 0.02
    dropout: float = 0.1


@dataclass(frozen=True)
class Plan:
    """How much of everything.

    Attributes
    ----------
    recording : Recording
        What to record.
    held_out, split_seed : float, int
        The share of rows to hold out, and the seed that draws the programs.
    learning : Learning
        How the networks learn.
    tree_rounds : int
        The trees for each target.
    """

    recording: Recording = Recording()
    held_out: float = 0.3
    split_seed: int = 0
    learning: Learning = Learning()
    tree_rounds: int = 1_000


QUICK = Plan(
    recording=Recording(
        csmith=6,
        stress=4,
        own=4,
        walks=1,
        walk_length=6,
        states=2,
        nodes_max=2_500,
        tries=6,
        rollouts=1,
    ),
    learning=Learning(epochs=3, batch_nodes=4_000, width=16, graph_width=32, steps=3),
    tree_rounds=20,
)
