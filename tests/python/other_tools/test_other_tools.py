"""Readers that share no code with steplake read a lake while it changes: globs and Delta tables.

READS is the number of reads by all readers together. Spark takes part where it is installed: see
requirements-spark.txt.
"""

import json
import os
import subprocess
import tempfile
import threading
import unittest
from collections import Counter
from pathlib import Path

import deltalake
import duckdb
import duckdb_extension_delta
import polars
import pyarrow.dataset

try:
    import pyspark.sql
except ImportError:
    pyspark = None

TABLES = ["benchmarks", "actions", "episodes", "steps", "observations", "ir", "state_transitions"]
DERIVED = {"state_transitions", "conflicts", "failures"}
READS = int(os.environ.get("READS", "500"))


def steplake(*arguments, lake):
    command = [os.environ["STEPLAKE"], "--quiet", "--lake", str(lake), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stderr}"
    return done.stdout


class Snapshots:
    """The rows of each table in each snapshot, from the log of snapshots."""

    def __init__(self, lake):
        self.lake = lake
        self.files = {}
        self.counts = {}

    def follow(self):
        """Reads the entries that have come."""
        while (path := self.lake / "log" / f"{len(self.counts) + 1:020}.json").exists():
            entry = json.loads(path.read_text().splitlines()[0])
            if entry["derived"] == "dropped":
                self.files = {path: row for path, row in self.files.items() if row["layer"] is None}
            for gone in entry["retire"]:
                self.files.pop(gone, None)
            for row in entry["add"]:
                table, digest = row["table"], row["digest"][:16]
                self.files[f"data/{table}/{table}-{digest}.parquet"] = row
            layers = [row["layer"] for row in self.files.values() if row["layer"] is not None]
            oldest = min(layers, default=None)
            counts = Counter({table: 0 for table in TABLES})
            for row in self.files.values():
                if row["layer"] == oldest or row["layer"] is None:
                    counts[row["table"]] += row["rows"]
            self.counts[entry["snapshot"]] = counts

    def of(self, table):
        return {counts[table] for counts in self.counts.values()}


def change(lake, stop, snapshots, failures):
    """Records, dedups, retracts, seals, expires and collects until told to stop."""
    try:
        seed = 0
        while not stop.is_set():
            seed += 1
            toy = ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..9"]
            steplake(*toy, "--episodes", "6", "--seed", str(seed), lake=lake)
            steplake("dedup", lake=lake)
            if seed % 3 == 0:
                # A recent run, and older ones, so that the lake does not grow for ever.
                for run in [seed, *range(max(1, seed - 8), seed - 6)]:
                    steplake("retract", "--run", str(run), "--reason", "a test", lake=lake)
                steplake("dedup", lake=lake)
            snapshots.follow()
            if seed % 4 == 0:
                steplake("expire", "--keep", "12", lake=lake)
                steplake("gc", lake=lake)
    except Exception as error:
        failures.append(error)


def duckdb_with_delta():
    extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension"))
    database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    database.execute(f"LOAD '{extension}'")
    return database


class Outside(unittest.TestCase):
    def readers(self, lake):
        database = duckdb_with_delta()
        count = lambda source: database.execute(f"SELECT count(*) FROM (SELECT * FROM {source})").fetchone()[0]
        readers = {
            "deltalake": lambda table: deltalake.DeltaTable(lake / "data" / table).to_pyarrow_table().num_rows,
            "polars scan_delta": lambda table: polars.scan_delta(str(lake / "data" / table)).collect().height,
            "duckdb delta_scan": lambda table: count(f"delta_scan('{lake}/data/{table}')"),
            "duckdb glob": lambda table: count(f"'{lake}/current/{table}/*.parquet'"),
            "polars glob": lambda table: polars.scan_parquet(f"{lake}/current/{table}/*.parquet").collect().height,
            "pyarrow glob": lambda table: pyarrow.dataset.dataset(lake / "current" / table).to_table().num_rows,
        }
        if pyspark:
            spark = self.spark()
            readers["pyspark glob"] = lambda table: len(spark.read.parquet(f"{lake}/current/{table}").collect())
        return readers

    def spark(self):
        session = pyspark.sql.SparkSession.builder.master("local[1]").getOrCreate()
        self.addCleanup(session.stop)
        return session

    def test_info_prints_lines_that_read_the_lake(self):
        folder = tempfile.TemporaryDirectory(prefix="steplake outside's-")
        self.addCleanup(folder.cleanup)
        lake = Path(folder.name) / "lake"
        toy = ("generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..9", "--episodes", "6")
        steplake(*toy, "--rewards", "Cost", lake=lake)
        steplake("dedup", lake=lake)
        # Its column is not in the older files.
        steplake(*toy, "--rewards", "CostOz", "--seed", "7", lake=lake)
        steplake("dedup", lake=lake)
        info = json.loads(steplake("info", "--format", "json", lake=lake))
        lines, steps = info["other_tools"]["read_with"], info["tables"]["steps"]["rows"]
        answers = {
            "duckdb": duckdb.sql(lines["duckdb"]).to_arrow_table(),
            "polars": eval(lines["polars"], {"pl": polars}).collect().to_arrow(),
            "pandas": pyarrow.Table.from_pandas(eval(lines["pandas"], {"deltalake": deltalake})),
        }
        if pyspark:
            answer = eval(lines["spark"], {"spark": self.spark()})
            answers["spark"] = pyarrow.Table.from_pandas(answer.toPandas())
        for tool, answer in answers.items():
            self.assertEqual(answer.num_rows, steps, tool)
            for reward in ("reward_Cost", "reward_CostOz"):
                self.assertGreater(answer[reward].null_count, 0, tool)
                self.assertLess(answer[reward].null_count, steps, tool)

    def test_every_reader_reads_program_graphs(self):
        folder = tempfile.TemporaryDirectory(prefix="steplake-outside-")
        self.addCleanup(folder.cleanup)
        lake = Path(folder.name) / "lake"
        run = ("generate", "--benchmark", "benchmark://steplake-v0/huffman", "--episodes", "2")
        steplake(*run, "--episode-length", "8", "--observe", "Programl", lake=lake)
        steplake("seal", lake=lake)
        glob, table = f"{lake}/current/observations/*.parquet", lake / "data" / "observations"
        answers = {
            "deltalake": deltalake.DeltaTable(table).to_pyarrow_table(),
            "polars scan_delta": polars.scan_delta(str(table)).collect().to_arrow(),
            "duckdb": duckdb.sql(f"SELECT * FROM '{glob}'").to_arrow_table(),
            "polars": polars.scan_parquet(glob).collect().to_arrow(),
            "pyarrow": pyarrow.dataset.dataset(lake / "current" / "observations").to_table(),
        }
        answers = {tool: answer["Programl"].to_pylist() for tool, answer in answers.items()}
        if pyspark:
            rows = self.spark().read.parquet(f"{lake}/current/observations").collect()
            answers["pyspark"] = [row["Programl"].asDict() for row in rows]
        graphs = answers["pyarrow"]
        self.assertTrue(all(graph["node_text"][0] == "[external]" for graph in graphs))
        for graph in graphs:
            self.assertLess(max(graph["edge_source"] + graph["edge_target"]), len(graph["node_type"]))
        for tool, answer in answers.items():
            self.assertEqual(answer, graphs, tool)

    def test_readers_of_delta_tables_leave_out_deleted_rows(self):
        # Its derived tables lie in layers: scripts/test-readers.sh makes it.
        lake = Path(os.environ["STEPLAKE_TEST_LAYERED_LAKE"])
        key = "state_key, action, count, first_episode_id, first_step_index"
        database = duckdb_with_delta()
        for name in DERIVED:
            table = lake / "data" / name
            known = steplake("sql", "--format", "csv", f"SELECT {key} FROM {name}", lake=lake).splitlines()[1:]
            known = [tuple(int(value) if value else None for value in row.split(",")) for row in known]
            delta = deltalake.DeltaTable(table)
            scanned = deltalake.QueryBuilder().register("t", delta).execute(f"SELECT {key} FROM t").read_all()
            answers = {
                "duckdb delta_scan": database.execute(f"SELECT {key} FROM delta_scan('{table}')").fetchall(),
                "polars scan_delta": polars.scan_delta(str(table)).select(key.split(", ")).collect().rows(),
                "deltalake": zip(*(column.to_pylist() for column in pyarrow.table(scanned).columns)),
            }
            missing = lambda row: tuple((value is None, value) for value in row)
            for tool, answer in answers.items():
                self.assertEqual(sorted(answer, key=missing), sorted(known, key=missing), f"{tool} of {name}")
            self.assertEqual(delta.metadata().configuration, {"steplake.uncounted_steps": "0"})
        # What knows nothing of them refuses the table.
        with self.assertRaisesRegex(Exception, "deletionVectors"):
            deltalake.DeltaTable(lake / "data" / "state_transitions").to_pyarrow_table()

    def test_every_read_gives_one_snapshot(self):
        folder = tempfile.TemporaryDirectory(prefix="steplake-outside-")
        self.addCleanup(folder.cleanup)
        lake = Path(folder.name) / "lake"
        steplake("generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..9", "--episodes", "6", lake=lake)
        steplake("dedup", lake=lake)
        snapshots, failures, stop = Snapshots(lake), [], threading.Event()
        writer = threading.Thread(target=change, args=(lake, stop, snapshots, failures))
        writer.start()
        readers, seen, errors = self.readers(lake), [], Counter()
        try:
            while len(seen) < READS and not failures:
                for name, read in readers.items():
                    table = TABLES[len(seen) % len(TABLES)]
                    try:
                        seen.append((name, table, read(table)))
                    except Exception as error:
                        # Files of a glob may have been replaced since they were listed.
                        if "glob" not in name:
                            raise
                        errors[f"{name}: {type(error).__name__}"] += 1
        finally:
            stop.set()
            writer.join()
        self.assertEqual(failures, [])
        snapshots.follow()
        for name, table, rows in seen:
            self.assertIn(rows, snapshots.of(table), f"{name} of {table}")
        of_reader = Counter(name for name, _, _ in seen)
        self.assertGreaterEqual(min(of_reader[name] for name in readers), READS // 50, of_reader)
        print(f"{len(seen)} reads over {len(snapshots.counts)} snapshots; refused: {dict(errors)}")
        self.assertGreater(len(snapshots.counts), 10)


if __name__ == "__main__":
    unittest.main()
