"""Graphs of programs as arrays, with texts as numbers of a vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

INSTRUCTION, NODE_TYPES, FLOWS = 0, 3, 3
# Larger positions, such as those of the cases of a long switch, count as this one.
POSITION_MAX = 63


@dataclass(frozen=True)
class Graph:
    """A program graph, with texts as numbers of a vocabulary.

    Attributes
    ----------
    node_type, node_text : numpy.ndarray, shape (nodes,)
        Whether a node is an instruction, a variable or a constant; and its text.
    edge_index : numpy.ndarray, shape (2, edges)
        The ends of each edge.
    edge_flow, edge_position : numpy.ndarray, shape (edges,)
        Control, data or calls; and which operand or successor.
    """

    node_type: np.ndarray
    node_text: np.ndarray
    edge_index: np.ndarray
    edge_flow: np.ndarray
    edge_position: np.ndarray


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


def number(row: dict, vocabulary: Vocabulary) -> Graph:
    """Put the observation `Programl` into numbers. Small types: all graphs stay in memory."""
    ends = np.stack([np.asarray(row["edge_source"]), np.asarray(row["edge_target"])])
    position = np.minimum(np.asarray(row["edge_position"]), POSITION_MAX)
    return Graph(
        np.asarray(row["node_type"]).astype(np.int8),
        vocabulary.numbers(row["node_text"]),
        ends.astype(np.int32),
        np.asarray(row["edge_flow"]).astype(np.int8),
        position.astype(np.int8),
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
