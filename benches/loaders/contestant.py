"""What each way to read the data set offers, and the baseline: all rows in one tensor."""

from abc import ABC, abstractmethod

import batch


class Contestant(ABC):
    """A way to read the transitions into tensors of PyTorch.

    `prepare` runs once, and may write a format of its own. Each epoch has a process of its own:
    `open`, and then `sequential` if there is no seed, else `shuffled`. A batch may be a view, and
    is used up before the next one is asked for.
    """

    name: str
    # Imported before the clock starts and before memory is measured.
    imports: tuple[str, ...]
    # Among which rows the shuffle is a uniform one.
    shuffles: str = "all rows"
    # The contestant whose files it reads, if it writes none of its own.
    reads: str | None = None
    # The virtual environment that it needs, by the name of its list of requirements.
    environment: str = "requirements.txt"

    def __init__(self, source, folder, batch_rows, seed=None):
        self.source = source
        self.folder = folder
        self.batch_rows = batch_rows
        self.seed = seed

    def prepare(self):
        """Write the rows of the Parquet files in `source` into `folder`, in their order."""

    @abstractmethod
    def open(self):
        """Open the data set for this epoch, and load it where it is to be in memory."""

    @abstractmethod
    def sequential(self):
        """Give the batches of one epoch in the order of the files; the last one may be short."""

    @abstractmethod
    def shuffled(self):
        """Give the batches of one epoch in a random order; batches may be short."""

    def resumed(self):
        """Go on in the middle of a shuffled epoch; return the seconds to the first batch there.

        None if the contestant cannot.
        """
        return None

    def files(self):
        """Return the files of the Parquet data set, in their order."""
        return sorted(str(path) for path in self.source.glob("*.parquet"))

    def draws(self, rows):
        """Give the row numbers of each batch of a global shuffle."""
        import numpy as np

        order = np.random.default_rng(self.seed).permutation(rows)
        for begin in range(0, rows, self.batch_rows):
            yield order[begin : begin + self.batch_rows]


def matrix(column):
    """Return a column of Arrow, lists of one size, as a matrix of NumPy that looks into it."""
    return column.flatten().to_numpy().reshape(len(column), -1)


def tensors(table):
    """Return a table or record batch of Arrow as a batch; it looks into columns of one chunk."""
    import pyarrow
    import torch

    columns = [table[name] for name in batch.COLUMNS]
    if isinstance(table, pyarrow.Table):
        columns = [column.combine_chunks() for column in columns]
    before, after = matrix(columns[0]), matrix(columns[1])
    parts = (before, after, columns[2].to_numpy(), columns[3].to_numpy())
    return batch.Batch(*(torch.from_numpy(part) for part in parts))


def packed(table):
    """Return a table or record batch of Arrow as packed rows."""
    return batch.pack(*(column.numpy() for column in tensors(table)))


def packed_groups(files):
    """Give the packed rows of each row group."""
    import pyarrow.parquet as pq

    for path in files:
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            yield packed(file.read_row_group(group, columns=batch.COLUMNS))


class Tensor(Contestant):
    """All rows in one tensor, indexed by a permutation."""

    name = "tensor"
    imports = ("torch", "pyarrow.parquet")

    def open(self):
        """Fill the tensor a row group at a time, so that no second copy is ever in memory."""
        import pyarrow.parquet as pq
        import torch

        rows = sum(pq.read_metadata(path).num_rows for path in self.files())
        self.rows = torch.empty((rows, batch.PACKED), dtype=torch.int32)
        begin = 0
        for group in packed_groups(self.files()):
            self.rows[begin : begin + len(group)] = torch.from_numpy(group)
            begin += len(group)

    def sequential(self):
        for rows in self.rows.split(self.batch_rows):
            yield batch.unpack(rows)

    def shuffled(self):
        """Gather whole packed rows: `index_select` is about twice as fast as `rows[order]`."""
        import torch

        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(len(self.rows), generator=generator)
        for some in order.split(self.batch_rows):
            yield batch.unpack(self.rows.index_select(0, some))


class TensorOneThread(Tensor):
    """The same without PyTorch's threads, which wait for each other where cores are busy."""

    name = "tensor, one thread"

    def open(self):
        import torch

        torch.set_num_threads(1)
        super().open()
