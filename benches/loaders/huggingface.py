"""Loaders of Hugging Face `datasets`."""

import batch
from contestant import Contestant, tensors


def converted(columns):
    """Return what the format `torch` gives as a batch: it turns integers into int64."""
    import torch

    *integers, reward = (columns[name] for name in batch.COLUMNS)
    return batch.Batch(*(column.to(torch.int32) for column in integers), reward)


class MapStyle(Contestant):
    """`datasets`, map-style, in the format `torch`."""

    name = "datasets"
    imports = ("torch", "datasets")
    format = "torch"

    def load(self):
        """Return the data set, whose rows lie in a file of Arrow that is mapped."""
        from datasets import load_dataset

        return load_dataset(
            "parquet",
            data_files=self.files(),
            split="train",
            columns=batch.COLUMNS,
            cache_dir=str(self.folder),
        )

    def prepare(self):
        self.load()

    def open(self):
        self.dataset = self.load().with_format(self.format)

    def convert(self, columns):
        """Return rows in this format as a batch."""
        return converted(columns)

    def sequential(self):
        for columns in self.dataset.iter(self.batch_rows):
            yield self.convert(columns)

    def shuffled(self):
        """Index whole batches: faster than `shuffle`, and far faster than examples one by one."""
        for rows in self.draws(len(self.dataset)):
            yield self.convert(self.dataset[rows])


class MapStyleArrow(MapStyle):
    """`datasets`, map-style, in the format `arrow`, with tensors made from its tables."""

    name = "datasets, arrow"
    reads = "datasets"
    format = "arrow"

    def convert(self, columns):
        return tensors(columns)


class Streaming(Contestant):
    """`datasets`, streaming from Parquet, with its shuffle buffer."""

    name = "datasets, streaming"
    imports = ("torch", "datasets")
    shuffles = "a buffer of 10,000 rows"
    BUFFER_ROWS = 10_000

    def open(self):
        from datasets import load_dataset

        self.dataset = load_dataset(
            "parquet",
            data_files=self.files(),
            split="train",
            columns=batch.COLUMNS,
            streaming=True,
        ).with_format("torch")

    def sequential(self):
        """Iterate over batches: the rows of a batch are converted together."""
        for columns in self.dataset.iter(self.batch_rows):
            yield converted(columns)

    def shuffled(self):
        mixed = self.dataset.shuffle(self.seed, buffer_size=self.BUFFER_ROWS)
        for columns in mixed.iter(self.batch_rows):
            yield converted(columns)
