"""Prints the shape of each part, and the actions with the highest mean reward; needs pyarrow."""

from pyarrow import csv, dataset

names = csv.read_csv("actions.csv")["name"]
rows = dataset.dataset("data", format="parquet")
for part in ["train", "test"]:
    count = rows.count_rows(filter=dataset.field("split") == part)
    print(f"{part}: {count:,} rows of {len(rows.schema)} columns")
groups = rows.to_table(["action", "reward_IrInstructionCountNorm"]).group_by("action")
means = groups.aggregate([("reward_IrInstructionCountNorm", "mean")]).sort_by([(1, "descending")])
for action, mean in zip(*means.slice(0, 10).to_pydict().values(), strict=True):
    print(f"{mean:8.4f}  {names[action]}")
