"""steplake: a dataset of a lake."""

import os
import time

import batch
from contestant import Contestant


class Steplake(Contestant):
    """`lake.dataset`: gathered from the features of unique states by two threads."""

    name = "steplake"
    imports = ("torch", "steplake", "steplake._torch")
    COLUMNS = ("Features", "next_Features", "action", "reward_Size")

    def rows(self):
        import steplake

        os.environ["STEPLAKE_CACHE"] = str(self.folder)
        lake = steplake.open(self.source.parent / "lake")
        return lake.dataset("state_transitions", self.COLUMNS).with_format("torch")

    def prepare(self):
        """Read the columns into the cache."""
        self.rows()

    def open(self):
        self.dataset = self.rows()

    def loader(self, dataset):
        return dataset.loader(self.batch_rows)

    def batches(self, dataset):
        for columns in self.loader(dataset):
            yield batch.Batch(*(columns[name] for name in self.COLUMNS))

    def sequential(self):
        return self.batches(self.dataset)

    def shuffled(self):
        return self.batches(self.dataset.shuffle(self.seed))

    def resumed(self):
        dataset = self.dataset.shuffle(self.seed)
        state = self.loader(dataset).state_dict()
        state["rows"] = len(dataset) // 2 // self.batch_rows * self.batch_rows
        began = time.perf_counter()
        loader = self.loader(dataset)
        loader.load_state_dict(state)
        next(iter(loader))
        return time.perf_counter() - began


class SteplakeStreamed(Steplake):
    """The same rows, streamed from Parquet."""

    name = "steplake, streamed"
    shuffles = "131,072 rows, and row groups"

    def loader(self, dataset):
        return dataset.loader(self.batch_rows, in_memory=False)

    def prepare(self):
        super().prepare()
        next(self.batches(self.rows().shuffle(0)))
