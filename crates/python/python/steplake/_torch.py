"""Loaders that PyTorch knows; nothing else in the package imports it at the top."""

from __future__ import annotations

import torch.distributed
from torch.utils.data import IterableDataset

from steplake._rows import Columns
from steplake._workers import this_worker
from steplake.loader import Loader


class TorchLoader(Loader, IterableDataset[Columns]):  # type: ignore[misc,unused-ignore]
    """A `steplake.loader.Loader` that is an ``IterableDataset`` of whole batches."""

    def _process_place(self) -> tuple[int, int] | None:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        return None

    def _place_of_worker(self) -> tuple[int, int] | None:
        worker = this_worker()
        return None if worker is None else worker[:2]
