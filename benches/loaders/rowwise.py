"""Loaders whose formats store a sample after the other.

A sample is the bytes of a packed row, and a batch is made from the joined bytes of its samples:
with a sample of four columns both loaders are several times slower.
"""

import os

import batch
from contestant import Contestant, packed_groups

SHARD_BYTES = 64 * 2**20


def joined(samples):
    """Return samples as a batch."""
    import torch

    rows = torch.frombuffer(bytearray(b"".join(samples)), dtype=torch.int32)
    return batch.unpack(rows.view(-1, batch.PACKED))


def joined_columns(samples):
    """Return samples with one column as a batch."""
    return joined([sample["row"] for sample in samples])


class MosaicML(Contestant):
    """MosaicML `streaming`, by its own data loader."""

    name = "mosaicml-streaming"
    imports = ("torch", "streaming", "pyarrow.parquet")
    shuffles = "blocks of 262,144 rows"
    environment = "requirements-mosaicml.txt"

    def prepare(self):
        from streaming import MDSWriter

        out = str(self.folder / "mds")
        with MDSWriter(out=out, columns={"row": "bytes"}, size_limit=SHARD_BYTES) as writer:
            for rows in packed_groups(self.files()):
                for row in rows:
                    writer.write({"row": row.tobytes()})

    def dataset(self, shuffle):
        """Return its data set; the shuffle is its default one."""
        from streaming import StreamingDataset
        from streaming.base.util import clean_stale_shared_memory

        clean_stale_shared_memory()
        return StreamingDataset(
            local=str(self.folder / "mds"),
            shuffle=shuffle,
            shuffle_seed=self.seed or 0,
            batch_size=self.batch_rows,
        )

    def open(self):
        """Use a worker a core: in one process its threads wait for each other."""
        from streaming import StreamingDataLoader

        self.loader = StreamingDataLoader(
            self.dataset(self.seed is not None),
            batch_size=self.batch_rows,
            num_workers=os.cpu_count(),
            collate_fn=joined_columns,
        )

    def sequential(self):
        yield from self.loader

    def shuffled(self):
        yield from self.loader


class MosaicMLIndexed(MosaicML):
    """MosaicML `streaming`, by index: it has a reader of whole batches, `dataset[indices]`."""

    name = "mosaicml-streaming, indexed"
    reads = "mosaicml-streaming"
    shuffles = "all rows"

    def open(self):
        self.rows = self.dataset(False)

    def sequential(self):
        for begin in range(0, len(self.rows), self.batch_rows):
            yield joined_columns(self.rows[begin : begin + self.batch_rows])

    def shuffled(self):
        for rows in self.draws(len(self.rows)):
            yield joined_columns(self.rows[rows])


class LitData(Contestant):
    """`litdata`, by its own data loader."""

    name = "litdata"
    imports = ("torch", "litdata", "pyarrow.parquet")
    shuffles = "a chunk of 64 MiB"

    def prepare(self):
        from litdata.streaming.cache import Cache

        (self.folder / "chunks").mkdir()
        cache = Cache(str(self.folder / "chunks"), chunk_bytes=SHARD_BYTES)
        sample = 0
        for rows in packed_groups(self.files()):
            for row in rows:
                cache[sample] = row.tobytes()
                sample += 1
        cache.done()
        cache.merge()

    def open(self):
        """Use no workers, which only copy; decode and shuffle a chunk at once."""
        import litdata

        dataset = litdata.StreamingDataset(
            str(self.folder / "chunks"),
            shuffle=self.seed is not None,
            seed=self.seed or 0,
            drop_last=False,
            batch_decode="all",
            item_shuffle_window="full",
        )
        self.loader = litdata.StreamingDataLoader(
            dataset, batch_size=self.batch_rows, collate_fn=joined
        )

    def sequential(self):
        yield from self.loader

    def shuffled(self):
        yield from self.loader
