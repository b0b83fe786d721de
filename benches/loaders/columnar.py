"""Loaders that hand out columns of Arrow."""

import batch
from contestant import Contestant, tensors


class Dataset(Contestant):
    """`pyarrow.dataset` from Parquet, with row groups in a random order and a buffer."""

    name = "pyarrow.dataset"
    imports = ("torch", "pyarrow.dataset")
    shuffles = "a buffer of 32 random row groups"
    BUFFER_GROUPS = 32

    def open(self):
        import pyarrow.dataset as ds

        self.dataset = ds.dataset(self.files(), format="parquet")

    def sequential(self):
        """Scan with the size of a batch: row groups are decoded ahead on all cores."""
        for rows in self.dataset.to_batches(columns=batch.COLUMNS, batch_size=self.batch_rows):
            yield tensors(rows)

    def shuffled(self):
        """Read row groups in parallel into one table: `Dataset.take` would decode all per batch."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.dataset as ds

        rng = np.random.default_rng(self.seed)
        groups = [
            group for file in self.dataset.get_fragments() for group in file.split_by_row_group()
        ]
        order = rng.permutation(len(groups))
        for begin in range(0, len(groups), self.BUFFER_GROUPS):
            drawn = [groups[group] for group in order[begin : begin + self.BUFFER_GROUPS]]
            some = ds.FileSystemDataset(drawn, self.dataset.schema, self.dataset.format)
            # `take` from many chunks is twenty times slower than from one.
            table = some.to_table(columns=batch.COLUMNS).combine_chunks()
            mixed = rng.permutation(len(table))
            for first in range(0, len(table), self.batch_rows):
                yield tensors(table.take(pa.array(mixed[first : first + self.batch_rows])))


class Table(Contestant):
    """All rows in one table of pyarrow, from which batches are taken."""

    name = "pyarrow, all in memory"
    imports = ("torch", "pyarrow.dataset")

    def open(self):
        import pyarrow.dataset as ds

        table = ds.dataset(self.files(), format="parquet").to_table(columns=batch.COLUMNS)
        # `take` from many chunks is twenty times slower than from one.
        self.table = table.combine_chunks()

    def sequential(self):
        for rows in self.table.to_batches(max_chunksize=self.batch_rows):
            yield tensors(rows)

    def shuffled(self):
        import pyarrow as pa

        for rows in self.draws(len(self.table)):
            yield tensors(self.table.take(pa.array(rows)))


class Polars(Contestant):
    """`polars`: a scan in batches, and a gather from a frame with all rows."""

    name = "polars, all in memory"
    imports = ("torch", "polars")

    def open(self):
        import polars

        self.scan = polars.scan_parquet(self.files()).select(batch.COLUMNS)
        # A gather from one chunk; a lazy one would scan all files for each batch.
        self.frame = None if self.seed is None else self.scan.collect().rechunk()

    def convert(self, frame):
        """Return a frame as a batch: a column of arrays becomes a matrix without a copy."""
        import torch

        return batch.Batch(*(torch.from_numpy(frame[name].to_numpy()) for name in batch.COLUMNS))

    def sequential(self):
        """Scan with the streaming engine: nothing but the next batches is in memory."""
        for frame in self.scan.collect_batches(chunk_size=self.batch_rows, maintain_order=True):
            yield self.convert(frame)

    def shuffled(self):
        for rows in self.draws(self.frame.height):
            yield self.convert(self.frame[rows])


class Lance(Contestant):
    """`pylance`: its dataset for PyTorch, and `take`."""

    name = "lance"
    imports = ("torch", "lance.torch.data", "pyarrow.dataset")

    def prepare(self):
        import lance
        import pyarrow.dataset as ds

        source = ds.dataset(self.files(), format="parquet")
        lance.write_dataset(source.scanner(columns=batch.COLUMNS), self.folder / "rows.lance")

    def open(self):
        import lance

        self.dataset = lance.dataset(self.folder / "rows.lance")

    def sequential(self):
        """Use its own dataset for PyTorch, which reads and converts whole batches."""
        from lance.torch.data import LanceDataset

        for columns in LanceDataset(self.dataset, batch_size=self.batch_rows):
            yield batch.Batch(*(columns[name] for name in batch.COLUMNS))

    def shuffled(self):
        """Take a batch at a time: its sampler shuffles batches of neighbours only."""
        for rows in self.draws(self.dataset.count_rows()):
            yield tensors(self.dataset.take(rows))
