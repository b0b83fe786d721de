"""steplake: a dataset of a lake."""

import os

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

    def batches(self, dataset):
        for columns in dataset.loader(self.batch_rows):
            yield batch.Batch(*(columns[name] for name in self.COLUMNS))

    def sequential(self):
        return self.batches(self.dataset)

    def shuffled(self):
        return self.batches(self.dataset.shuffle(self.seed))
