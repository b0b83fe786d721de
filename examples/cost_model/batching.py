"""Batches of graphs as tensors, in the layout of PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from graphs import FLOWS, Graph

# The kinds of edges: a flow (control, data, calls), along it or against it.
EDGE_KINDS = 2 * FLOWS


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


def collate(graphs: Sequence[Graph]) -> Batch:
    """Put graphs into one batch: ragged, nothing is padded."""
    sizes = np.array([len(graph.node_type) for graph in graphs])
    begins = sizes.cumsum() - sizes
    ends = [graph.edge_index + begin for graph, begin in zip(graphs, begins, strict=True)]
    edges = together(ends, axis=1)
    flow = together([graph.edge_flow for graph in graphs])
    position = together([graph.edge_position for graph in graphs])
    return Batch(
        together([graph.node_type for graph in graphs]),
        together([graph.node_text for graph in graphs]),
        torch.cat([edges, edges.flip(0)], 1),
        torch.cat([flow, flow + FLOWS]),
        torch.cat([position, position]),
        torch.from_numpy(np.repeat(np.arange(len(graphs)), sizes)),
        len(graphs),
    )


def together(arrays: Sequence[np.ndarray], axis: int = 0) -> torch.Tensor:
    """Return arrays one after the other, as a tensor of indices."""
    return torch.from_numpy(np.concatenate(arrays, axis).astype(np.int64))
