"""Readers that share no code with steplake read its Parquet and get what steplake says is there."""

import hashlib
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

TABLES = ["benchmarks", "episodes", "steps", "observations", "ir", "state_transitions"]


def steplake(*arguments, lake):
    command = [os.environ["STEPLAKE"], "--lake", str(lake), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stderr}"
    return done.stdout


class Readers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="steplake-readers-")
        cls.addClassCleanup(folder.cleanup)
        cls.lake = Path(folder.name) / "lake"
        # Twice, so that the derived tables are those of a second dedup.
        for seed in ["7", "8"]:
            steplake(
                *["generate", "--benchmark", "benchmark://steplake-v0/*", "--seed", seed],
                *["--episodes", "8", "--episode-length", "10", "--jobs", "2"],
                lake=cls.lake,
            )
            steplake("seal", lake=cls.lake)
            steplake("dedup", lake=cls.lake)
        cls.info = json.loads(steplake("info", "--format", "json", lake=cls.lake))

    def arrow(self, table):
        return ds.dataset(self.lake / "current" / table, format="parquet").to_table()

    def sql(self, query):
        """One row; `{table}` in the query stands for the table's files."""
        files = {t: f"read_parquet('{self.lake}/current/{t}/*.parquet')" for t in TABLES}
        return duckdb.connect().execute(query.format(**files)).fetchone()

    def test_counts_are_those_of_info(self):
        for table in TABLES:
            with self.subTest(table=table):
                rows = self.info["tables"][table]["rows"]
                self.assertGreater(rows, 0)
                self.assertEqual(self.arrow(table).num_rows, rows)
                self.assertEqual(self.sql(f"SELECT count(*) FROM {{{table}}}"), (rows,))

    def test_both_readers_see_the_same_values(self):
        total = sum(sum(vector) for vector in self.arrow("observations")["InstCount"].to_pylist())
        self.assertEqual(
            self.sql("SELECT sum(list_sum(InstCount::INTEGER[])), min(len(InstCount)) FROM {observations}"),
            (total, 70),
        )
        rewards = [r for r in self.arrow("steps")["reward_IrInstructionCount"].to_pylist() if r is not None]
        self.assertEqual(
            self.sql("SELECT count(reward_IrInstructionCount), sum(reward_IrInstructionCount) FROM {steps}"),
            (len(rewards), sum(rewards)),
        )

    def test_every_stored_state_proves_itself(self):
        for row in self.arrow("ir").to_pylist():
            bitcode = pa.decompress(row["bitcode"], decompressed_size=row["bytes"], codec="zstd")
            self.assertEqual(hashlib.sha1(bitcode).digest(), row["bitcode_sha1"])
            key = int.from_bytes(row["state_id"][:8], "big", signed=True)
            self.assertEqual(key, row["state_key"])

    def test_every_step_refers_to_what_is_there(self):
        living = "(SELECT state_id FROM {steps} WHERE state_id IS NOT NULL)"
        for table in ["observations", "ir"]:
            lost = f"SELECT count(*) FROM {living} ANTI JOIN {{{table}}} USING (state_id)"
            self.assertEqual(self.sql(lost), (0,), table)
        lost = "SELECT count(*) FROM {steps} ANTI JOIN {episodes} USING (episode_id)"
        self.assertEqual(self.sql(lost), (0,))

    def test_dedup_is_what_duckdb_makes_of_the_same_queries(self):
        """The definitions in queries/ as they stand, over a lake with conflicts and failures, and over a compiler's."""
        queries = Path(__file__).parents[2] / "queries"
        orders = {
            "state_transitions": ("dedup", "state_key, state_id, action"),
            "conflicts": ("dedup_conflicts", "state_key, state_id, action, next_state_id"),
            "failures": ("dedup_failures", "state_key, state_id, action NULLS LAST"),
        }
        for lake, tables in [(os.environ["STEPLAKE_TEST_LAKE"], orders), (self.lake, ["state_transitions"])]:
            database = duckdb.connect()
            for table in ["steps", "episodes", *tables]:
                database.execute(f"CREATE VIEW {table} AS FROM read_parquet('{lake}/current/{table}/*.parquet')")
            for table in tables:
                name, order = orders[table]
                defined = database.execute((queries / f"{name}.sql").read_text())
                columns = [column[0] for column in defined.description]
                rows = defined.fetchall()
                self.assertGreater(len(rows), 0)
                kept = database.execute(f"FROM {table} ORDER BY {order}")
                self.assertEqual([column[0] for column in kept.description], columns)
                self.assertEqual(kept.fetchall(), rows)


if __name__ == "__main__":
    unittest.main()
