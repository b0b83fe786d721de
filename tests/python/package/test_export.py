"""Exports for training, as other tools read them.

PyArrow, polars and DuckDB are always here; with `TORCH=yes scripts/test-python.sh`, so are Hugging
Face's `datasets`, Ray Data and pylance.
"""

import hashlib
import importlib
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import pyarrow.dataset
import pyarrow.parquet

import steplake

COLUMNS = ["state_id", "next_state_id", "action", "reward_Cost", "count", "Bits", "next_Bits"]


def optional(name):
    """A module, or a skipped test."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise unittest.SkipTest(f"{name} is not installed") from None


def comparable(rows):
    """Rows as tuples, sorted: ids as bytes, vectors as tuples."""

    def value(one):
        if isinstance(one, (bytes, bytearray, memoryview)):
            return bytes(one)
        if isinstance(one, str):
            return one
        return tuple(one) if hasattr(one, "__len__") else float(one)

    return sorted(tuple(value(row[name]) for name in [*COLUMNS, "split"]) for row in rows)


class Exports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls._folder.name)
        steplake.generate(
            cls.folder / "lake",
            "generator://toy-v0/0..19",
            environment="toy-v0",
            episodes=120,
            episode_length=8,
            seed=1,
        )
        cls.lake = steplake.open(cls.folder / "lake")
        cls.lake.dedup()
        cls.export = cls.folder / "export"
        line = ["export", "--training", "--by", "program", "--output", cls.export]
        cls.steplake(*line, *(f"--column={name}" for name in COLUMNS))
        rows = cls.lake.dataset("state_transitions", COLUMNS)
        cls.wanted = []
        cls.parts = rows.train_test_split(0.2, by="benchmark")
        for split, part in cls.parts.items():
            batch = part[:]
            for row in range(len(part)):
                one = {name: batch[name][row].tolist() for name in COLUMNS}
                for name in ["state_id", "next_state_id"]:
                    one[name] = bytes(one[name])
                cls.wanted.append({**one, "split": split})
        cls.wanted = comparable(cls.wanted)

    @classmethod
    def tearDownClass(cls):
        cls.lake.close()
        cls._folder.cleanup()

    @classmethod
    def steplake(cls, *arguments):
        line = [os.environ["STEPLAKE"], "--lake", cls.folder / "lake", *arguments]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout

    def files(self, split="*"):
        return sorted(map(str, self.export.glob(f"data/{split}-*.parquet")))

    def test_pyarrow(self):
        table = pyarrow.dataset.dataset(self.export / "data", format="parquet").to_table()
        self.assertEqual(table.column_names, [*COLUMNS, "split"])
        self.assertEqual(comparable(table.to_pylist()), self.wanted)

    def test_polars(self):
        polars = optional("polars")
        frame = polars.read_parquet(self.files())
        self.assertEqual(comparable(frame.to_dicts()), self.wanted)

    def test_duckdb(self):
        duckdb = optional("duckdb")
        rows = duckdb.sql(f"SELECT * FROM read_parquet({self.files()})")
        names = rows.columns
        found = [dict(zip(names, row, strict=True)) for row in rows.fetchall()]
        self.assertEqual(comparable(found), self.wanted)

    def test_huggingface_datasets(self):
        datasets = optional("datasets")
        os.environ["HF_HUB_OFFLINE"] = "1"
        cache = str(self.folder / "huggingface")
        # The folder says by itself which files are of which split.
        found = datasets.load_dataset(str(self.export), cache_dir=cache)
        self.assertEqual(set(found), {"train", "test"})
        rows = [row for part in found.values() for row in part]
        self.assertEqual(comparable(rows), self.wanted)

    def test_ray_data(self):
        ray = optional("ray")
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
        try:
            rows = ray.data.read_parquet(self.files()).take_all()
        finally:
            ray.shutdown()
        self.assertEqual(comparable(rows), self.wanted)

    def test_lance(self):
        lance = optional("lance")
        source = pyarrow.dataset.dataset(self.export / "data", format="parquet")
        written = lance.write_dataset(source, self.folder / "rows.lance")
        self.assertEqual(comparable(written.to_table().to_pylist()), self.wanted)

    def test_the_rows_are_shuffled_and_the_row_groups_small(self):
        [train] = self.files("train")
        file = pyarrow.parquet.ParquetFile(train)
        groups = [file.metadata.row_group(group) for group in range(file.num_row_groups)]
        self.assertLessEqual(max(group.num_rows for group in groups), 32_768)
        ids = file.read(["state_id"])["state_id"].to_pylist()
        in_order = sum(one <= other for one, other in zip(ids, ids[1:], strict=False))
        self.assertLess(abs(in_order / len(ids) - 0.5), 0.15)

    def test_the_card_and_the_checksums(self):
        card = (self.export / "README.md").read_text()
        for text in ["path: data/train-*.parquet", "| `next_Bits` | 16 numbers, int32 |", "toy-v0"]:
            self.assertIn(text, card)
        self.assertIn(f"| train | {len(self.parts['train'])} |", card)
        lines = (self.export / "SHA256SUMS").read_text().splitlines()
        self.assertEqual(len(lines), 1 + len(self.files()))
        for line in lines:
            digest, name = line.split("  ")
            content = (self.export / name).read_bytes()
            self.assertEqual(hashlib.sha256(content).hexdigest(), digest)

    def test_an_export_is_whole_and_the_same_again(self):
        again = self.folder / "again"
        line = ["export", "--training", "--by", "benchmark", "--output"]
        self.steplake(*line, again, *(f"--column={name}" for name in COLUMNS))
        sums = [(folder / "SHA256SUMS").read_text() for folder in [again, self.export]]
        self.assertEqual(*sums)
        with self.assertRaises(subprocess.CalledProcessError) as refused:
            self.steplake(*line, again)
        self.assertIn("it exists already", refused.exception.stderr)
        with self.assertRaises(subprocess.CalledProcessError) as refused:
            self.steplake(*line, self.folder / "other", "--column=Bit")
        self.assertIn("no column `Bit`", refused.exception.stderr)
        with self.assertRaises(subprocess.CalledProcessError) as refused:
            self.steplake(*line, self.folder / "other", "--column=action", "--column=action")
        self.assertIn("`action` would be there twice", refused.exception.stderr)
        self.assertFalse([*self.folder.glob("*other*"), *self.folder.glob(".steplake-*")])

    def test_a_validation_part(self):
        folder = self.folder / "three"
        line = ["export", "--training", "--by=program", "--validation-size=0.3", "--output"]
        self.steplake(*line, folder, "--column=state_id", "--column=next_state_id")
        found = {
            path.name.partition("-")[0]: pyarrow.parquet.read_table(path).num_rows
            for path in folder.glob("data/*")
        }
        rows = self.lake.dataset("state_transitions")
        parts = rows.train_test_split(0.2, 0.3, by="program")
        self.assertEqual(found, {name: len(part) for name, part in parts.items()})
        card = (folder / "README.md").read_text()
        self.assertIn("- split: validation\n    path: data/validation-*.parquet\n", card)
        self.assertIn(f"\n| validation | {found['validation']} |\n", card)
        none = r"None of the [\d,]+ states of {} rows is one of a training row\."
        self.assertRegex(card, rf"{none.format('validation')} {none.format('test')}\n")
        said = self.steplake("splits", "check", folder)
        for part in ["validation", "test"]:
            self.assertRegex(said, rf"None of the [\d,]+ states of {part} rows is one of a training")
        said = self.steplake("splits", "check", "--by=program", "--validation-size=0.3")
        self.assertRegex(said, r"[\d,]+ rows for training, [\d,]+ rows for validation, [\d,]+ rows for")
        said = self.steplake("splits", "check", "--by=row", "--validation-size=0.1")
        for part in ["validation", "test"]:
            self.assertRegex(said, rf"\n[\d,]+ states of the [\d,]+ states of {part} rows are states of")
        with self.assertRaises(subprocess.CalledProcessError) as refused:
            self.steplake("splits", "check", "--test-size=0.6", "--validation-size=0.5")
        self.assertIn("leave no rows for training", refused.exception.stderr)
        with self.assertRaises(subprocess.CalledProcessError) as refused:
            self.steplake("splits", "check")
        self.assertIn("splitting by program divides its programs", refused.exception.stderr)

    def test_all_columns_by_default(self):
        self.steplake("export", "--training", "--by=benchmark", "--output", self.folder / "all")
        [file] = self.folder.glob("all/data/train-*.parquet")
        names = pyarrow.parquet.read_schema(file).names
        self.assertEqual(set(names) >= {*COLUMNS, "Cost", "next_Cost"}, True, names)

    def test_splits_check(self):
        by_program = self.steplake("splits", "check", "--by", "benchmark")
        self.assertRegex(by_program, r"None of the [\d,]+ states of test rows is one of a training")
        by_row = self.steplake("splits", "check", "--by", "row")
        self.assertRegex(by_row, r"[\d,]+ states of the [\d,]+ states of test rows are states of")

    def check_given(self, *files):
        """What `splits check` says of files, as numbers."""
        said = self.steplake("splits", "check", *files)
        return [int(number.replace(",", "")) for number in re.findall(r"\b\d[\d,]*\b", said)]

    def test_splits_check_of_given_rows(self):
        of_files = self.steplake("splits", "check", *self.files())
        self.assertIn("None of the", of_files)
        self.assertEqual(self.steplake("splits", "check", self.export), of_files)
        parts = self.lake.dataset("state_transitions", COLUMNS[:2]).train_test_split(by="row")
        lines = [
            {
                "state_id": bytes(row["state_id"]),
                "next_state_id": bytes(row["next_state_id"]),
                "split": split,
            }
            for split, part in parts.items()
            for row in part
        ]
        report = parts.report
        wanted = [
            *(report[name] for name in ["train_rows", "test_rows", "leaked_states"]),
            *(report[name] for name in ["test_states", "leaked_rows", "test_rows"]),
        ]
        table = pyarrow.Table.from_pylist(lines)
        pyarrow.parquet.write_table(table, self.folder / "rows.parquet")
        self.assertEqual(self.check_given(self.folder / "rows.parquet"), wanted)
        # The same as text.
        with open(self.folder / "rows.csv", "w", encoding="utf-8") as file:
            print("state_id,next_state_id,split", file=file)
            for line in lines:
                ids = [line["state_id"].hex(), line["next_state_id"].hex()]
                print(*ids, line["split"], sep=",", file=file)
        self.assertEqual(self.check_given(self.folder / "rows.csv"), wanted)

    def test_splits_check_of_given_programs(self):
        tables = {
            name: self.lake.sql(f"SELECT {columns} FROM {name}").to_arrow_table().to_pylist()
            for name, columns in [
                ("benchmarks", "benchmark_uri, initial_state_id"),
                ("state_transitions", "state_id, next_state_id"),
            ]
        }
        edges = {}
        for row in tables["state_transitions"]:
            edges.setdefault(row["state_id"], []).append(row["next_state_id"])
        reached = {"train": set(), "test": set()}
        lines = []
        for number, row in enumerate(tables["benchmarks"]):
            part = "test" if number % 4 == 0 else "train"
            lines.append(f"{row['benchmark_uri']},{part},{number}")
            waiting = [row["initial_state_id"]]
            while waiting:
                state = waiting.pop()
                if state not in reached[part]:
                    reached[part].add(state)
                    waiting += edges.get(state, [])
        (self.folder / "programs.csv").write_text(
            "\n".join(["benchmark_uri,split,note", *lines, "benchmark://none/x,test,"]) + "\n"
        )
        rows = {
            part: [row for row in tables["state_transitions"] if row["state_id"] in states]
            for part, states in reached.items()
        }
        named = {
            part: {state for row in found for state in row.values()} for part, found in rows.items()
        }
        leaked = [row for row in rows["test"] if row["state_id"] in named["train"]]
        shared = len(named["test"] & named["train"])
        self.assertGreater(shared, 0)
        self.assertEqual(
            self.check_given(self.folder / "programs.csv"),
            [
                *(1, 0),
                *(len(rows["train"]), len(rows["test"])),
                *(shared, len(named["test"]), len(leaked), len(rows["test"])),
            ],
        )

    def test_a_damaged_file_is_an_error(self):
        content = bytearray(Path(self.files("train")[0]).read_bytes())
        for begin, end in [(4, len(content) // 2), (len(content) - 200, len(content) - 8)]:
            damaged = content.copy()
            damaged[begin:end] = bytes(end - begin)
            (self.folder / "damaged.parquet").write_bytes(damaged)
            with self.assertRaises(subprocess.CalledProcessError) as raised:
                self.steplake("splits", "check", self.folder / "damaged.parquet")
            lines = raised.exception.stderr.strip().splitlines()
            self.assertIn("damaged.parquet", lines[-1])
            self.assertNotEqual(raised.exception.returncode, 101)

    def test_a_file_that_gives_no_split_is_an_error(self):
        for lines, said in [
            ("benchmark_uri,part\na,train\n", "needs a column `split`"),
            ("benchmark_uri,split\na,train\n", "one has to be called `train`, and there has"),
            ("benchmark_uri,split\na,train\na,test\n", "a is of the parts train and test"),
            ("benchmark_uri,split\na,train\nb,test\n", "none of the programs of the part `test"),
            ("state_id,split\nff,train\n", "40 hexadecimal digits"),
        ]:
            (self.folder / "wrong.csv").write_text(lines)
            with self.assertRaises(subprocess.CalledProcessError) as raised:
                self.steplake("splits", "check", self.folder / "wrong.csv")
            self.assertIn(said, raised.exception.stderr)
        with self.assertRaises(subprocess.CalledProcessError) as raised:
            (self.folder / "wrong.csv").write_text("benchmark_uri,split\na,train\nb,test\n")
            self.steplake("splits", "check", "--table=steps", self.folder / "wrong.csv")
        self.assertIn("--table state_transitions", raised.exception.stderr)


if __name__ == "__main__":
    unittest.main()
