"""Graphs of programs as tensors, and batches of them in the layout of PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

INSTRUCTION, NODE_TYPES, FLOWS = 0, 3, 3
# The kinds of edges: a flow (control, data, calls), along it or against it.
EDGE_KINDS = 2 * FLOWS
# Larger positions, such as those of the cases of a long switch, count as this one.
POSITION_MAX = 63


@dataclass(frozen=True)
class Graph:
    """A program graph, with texts as numbers of a vocabulary.

    Attributes
    ----------
    node_type, node_text : torch.Tensor, shape (nodes,)
        Whether a node is an instruction, a variable or a constant; and its text.
    edge_index : torch.Tensor, shape (2, edges)
        The ends of each edge.
    edge_flow, edge_position : torch.Tensor, shape (edges,)
        Control, data or calls; and which operand or successor.
    """

    node_type: torch.Tensor
    node_text: torch.Tensor
    edge_index: torch.Tensor
    edge_flow: torch.Tensor
    edge_position: torch.Tensor


@dataclass(frozen=True)
class Batch:
    """Several graphs as one that is not connected.

    Nodes follow each other, graph by graph. Edges go both ways: each comes a second time against
    its direction, as a kind of its own.

    Attributes
    ----------
    node_type, node_text : torch.Tensor, shape (nodes,)
        As in `Graph`.
    edge_index : torch.Tensor, shape (2, 2 * edges)
        The ends of each edge, as places among all nodes.
    edge_kind, edge_position : torch.Tensor, shape (2 * edges,)
        Flow and direction, below `EDGE_KINDS`; and the position.
    batch : torch.Tensor, shape (nodes,)
        The number of each node's graph.
    num_graphs : int
        The number of graphs.
    """

    node_type: torch.Tensor
    node_text: torch.Tensor
    edge_index: torch.Tensor
    edge_kind: torch.Tensor
    edge_position: torch.Tensor
    batch: torch.Tensor
    num_graphs: int


class Vocabulary:
    """Numbers for the texts of nodes; 0 stands for every text that it does not know.

    Parameters
    ----------
    texts_by_program : iterable of set of str
        The texts of each training program. A text of one program alone is not in the vocabulary:
        so the network sees unknown texts while it learns, and learns what they are like.
    """

    def __init__(self, texts_by_program: Iterable[set[str]]) -> None:
        programs: dict[str, int] = {}
        for texts in texts_by_program:
            for text in texts:
                programs[text] = programs.get(text, 0) + 1
        known = sorted(text for text, count in programs.items() if count > 1)
        self._numbers = {text: number for number, text in enumerate(known, 1)}

    def __len__(self) -> int:
        return len(self._numbers) + 1

    def numbers(self, texts: Sequence[str]) -> np.ndarray:
        """Return the number of each text."""
        return np.array([self._numbers.get(text, 0) for text in texts], np.int32)


def tensorise(row: dict, vocabulary: Vocabulary) -> Graph:
    """Make tensors of the observation `Programl`. Small types: all graphs stay in memory."""
    ends = np.stack([np.asarray(row["edge_source"]), np.asarray(row["edge_target"])])
    position = np.minimum(np.asarray(row["edge_position"]), POSITION_MAX)
    return Graph(
        torch.from_numpy(np.asarray(row["node_type"]).astype(np.int8)),
        torch.from_numpy(vocabulary.numbers(row["node_text"])),
        torch.from_numpy(ends.astype(np.int32)),
        torch.from_numpy(np.asarray(row["edge_flow"]).astype(np.int8)),
        torch.from_numpy(position.astype(np.int8)),
    )


def collate(graphs: Sequence[Graph]) -> Batch:
    """Put graphs into one batch: ragged, nothing is padded."""
    sizes = torch.tensor([len(graph.node_type) for graph in graphs])
    begins = sizes.cumsum(0) - sizes
    ends = torch.cat(
        [graph.edge_index.long() + begin for graph, begin in zip(graphs, begins, strict=True)], 1
    )
    flow = torch.cat([graph.edge_flow for graph in graphs]).long()
    position = torch.cat([graph.edge_position for graph in graphs]).long()
    return Batch(
        torch.cat([graph.node_type for graph in graphs]).long(),
        torch.cat([graph.node_text for graph in graphs]).long(),
        torch.cat([ends, ends.flip(0)], 1),
        torch.cat([flow, flow + FLOWS]),
        torch.cat([position, position]),
        torch.repeat_interleave(torch.arange(len(graphs)), sizes),
        len(graphs),
    )


def batches(sizes: Sequence[int], nodes_max: int, order: Sequence[int]) -> list[list[int]]:
    """Divide graphs, in this order, into batches of at most `nodes_max` nodes.

    A graph that has more nodes is a batch of its own.
    """
    parts: list[list[int]] = []
    room = 0
    for place in order:
        if not parts or sizes[place] > room:
            parts.append([])
            room = nodes_max
        parts[-1].append(int(place))
        room -= sizes[place]
    return parts
