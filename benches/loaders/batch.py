"""What a batch is, and how two ways to read the same rows are compared.

A batch is four tensors of as many rows: the features before (int32, 56 each row), the features
after, the actions (int32) and the rewards (float32). A packed row holds the same as 114 int32, the
reward by its bits: for the formats that store rows and not columns.
"""

import hashlib
from typing import NamedTuple

import numpy as np

FEATURES = 56
PACKED = 2 * FEATURES + 2
COLUMNS = ["features_before", "features_after", "action", "reward"]


class Batch(NamedTuple):
    """Transitions as tensors, one row each."""

    before: object
    after: object
    action: object
    reward: object


def pack(before, after, action, reward):
    """Return packed rows as one matrix of NumPy."""
    rows = np.empty((len(action), PACKED), dtype=np.int32)
    rows[:, :FEATURES] = before
    rows[:, FEATURES : 2 * FEATURES] = after
    rows[:, -2] = action
    rows[:, -1] = np.ascontiguousarray(reward, dtype=np.float32).view(np.int32)
    return rows


def unpack(rows):
    """Return packed rows, a tensor, as a batch that looks into it."""
    import torch

    return Batch(
        rows[:, :FEATURES],
        rows[:, FEATURES : 2 * FEATURES],
        rows[:, -2],
        rows[:, -1:].view(torch.float32)[:, 0],
    )


def touch(batch):
    """Read a number of each row, so that no loader leaves the reading of a mapped file undone."""
    return int(batch.before[:, 0].sum()) + int(batch.after[:, -1].sum()) + float(batch.reward.sum())


def checked(batch, rows_max):
    """Return a batch as packed rows, if its types and shapes are those agreed on."""
    import torch

    rows = len(batch.action)
    assert rows <= rows_max
    assert batch.before.shape == batch.after.shape == (rows, FEATURES), batch.before.shape
    assert batch.action.shape == batch.reward.shape == (rows,), batch.action.shape
    assert batch.before.dtype == batch.after.dtype == batch.action.dtype == torch.int32
    assert batch.reward.dtype == torch.float32
    return pack(*(column.numpy() for column in batch))


def row_hashes(rows):
    """Return a hash of each packed row, as u64."""
    weights = np.random.default_rng(0).integers(0, 2**64, PACKED, dtype=np.uint64) | np.uint64(1)
    hashes = np.empty(len(rows), dtype=np.uint64)
    for begin in range(0, len(rows), 4096):
        some = rows[begin : begin + 4096].view(np.uint32).astype(np.uint64)
        hashes[begin : begin + 4096] = (some * weights).sum(axis=1)
    hashes ^= hashes >> np.uint64(32)
    hashes *= np.uint64(0x9E3779B97F4A7C15)
    return hashes ^ (hashes >> np.uint64(29))


class Comparison:
    """Hashes of an epoch: of its batches in their order, and of its rows in any order."""

    def __init__(self, batch_rows):
        self.batch_rows = batch_rows
        self.batches = hashlib.blake2b(digest_size=8)
        self.rows = []

    def add(self, batch):
        """Take in the next batch."""
        rows = checked(batch, self.batch_rows)
        self.batches.update(len(rows).to_bytes(8, "little"))
        self.batches.update(rows.data)
        self.rows.append(row_hashes(rows))

    def result(self, wanted):
        """Compare with the hashes of all rows, and return what was found."""
        found = np.concatenate(self.rows)
        return {
            "batches": self.batches.hexdigest(),
            "rows": f"{int(found.sum()):016x}",
            "same_order": bool(np.array_equal(found, wanted)),
            "same_rows": bool(np.array_equal(np.sort(found), np.sort(wanted))),
            "spread": spread(self.rows, wanted),
        }


def spread(batches, wanted):
    """Return how far apart in the files the rows of a batch lie, over that of a random batch.

    It is 1 for a global shuffle and near 0 for batches of neighbours.
    """
    order = np.argsort(wanted)
    found = np.concatenate(batches)
    positions = order[np.minimum(np.searchsorted(wanted, found, sorter=order), len(order) - 1)]
    size = len(batches[0])
    deviations = [positions[at : at + size].std() for at in range(0, len(found) - size + 1, size)]
    return float(np.median(deviations)) / (len(wanted) / 12**0.5) if deviations else 1.0
