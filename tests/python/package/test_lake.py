"""Questions to a lake, and what other libraries make of the answers."""

import pickle
import unittest

import duckdb
import pyarrow as pa
import steplake
from lakes import LakeCase, record_toy


class Questions(LakeCase):
    def test_rows_are_tuples(self):
        answer = self.lake.sql("SELECT episode_id, count(*) AS n FROM steps GROUP BY 1 ORDER BY 1")
        rows = answer.fetchall()
        self.assertEqual([count for _, count in rows], [11, 11, 11])
        self.assertEqual(answer.columns, ["episode_id", "n"])
        self.assertEqual([answer.fetchone() for _ in range(4)], [*rows, None])

    def test_an_answer_has_a_length_and_can_be_iterated(self):
        answer = self.lake.sql("SELECT episode_id, count(*) AS n FROM steps GROUP BY 1 ORDER BY 1")
        rows = answer.fetchall()
        begun = iter(answer)
        self.assertEqual((next(begun), len(answer)), (rows[0], 3))
        # An iterator goes on with its own rows; each begins with the first one.
        self.assertEqual((list(begun), list(answer), list(answer)), (rows[1:], rows, rows))
        self.assertEqual([count for _, count in answer], [11, 11, 11])
        self.assertEqual(answer.fetchone(), rows[0])
        empty = self.lake.sql("SELECT * FROM steps WHERE action = 99")
        self.assertEqual((len(empty), list(empty), bool(empty)), (0, [], True))
        # Rows that nobody counted are read as they are needed.
        many = iter(self.lake.sql("SELECT unnest(range(1000000)) AS n"))
        self.assertEqual([next(many) for _ in range(3)], [(0,), (1,), (2,)])
        wrong = self.lake.sql("SELECT 1 / (action - 1) FROM steps WHERE action = 1")
        self.assertTrue(wrong, "whether there is an answer is no question to the lake")
        with self.assertRaises(steplake.SteplakeError):
            list(wrong)

    def test_a_notebook_shows_the_first_rows(self):
        page = self.lake.sql(
            "SELECT '<b>' AS text, state_id, 2.5 AS number, NULL AS nothing FROM observations"
        )._repr_html_()
        count = self.lake.info()["tables"]["observations"]["rows"]
        self.assertIn("&lt;b&gt;", page)
        self.assertNotIn("<b>", page)
        self.assertRegex(page, "<td [^>]*>[0-9a-f]{40}</td>")
        self.assertIn("text-align:right", page)
        self.assertEqual(page.count("<tr>"), 1 + min(count, 20))
        self.assertIn(f"first 20 of {count} rows" if count > 20 else f"{count} rows", page)
        empty = self.lake.sql("SELECT action FROM steps WHERE action = 99")._repr_html_()
        self.assertIn("0 rows", empty)

    def test_a_mistake_shows_before_anything_runs(self):
        with self.assertRaisesRegex(steplake.QueryError, "line 1, column 8: .*`nosuch`"):
            self.lake.sql("SELECT nosuch FROM steps")
        with self.assertRaisesRegex(steplake.QueryError, "refused"):
            self.lake.sql("DELETE FROM steps")
        self.assertTrue(issubclass(steplake.QueryError, ValueError))

    def test_parameters(self):
        for text, params in [
            ("SELECT count(*) FROM steps WHERE action = ?", [3]),
            ("SELECT count(*) FROM steps WHERE action = $1", (3,)),
            ("SELECT count(*) FROM steps WHERE action = $action", {"action": 3}),
        ]:
            wanted = self.lake.sql("SELECT count(*) FROM steps WHERE action = 3").fetchone()
            self.assertEqual(self.lake.sql(text, params).fetchone(), wanted)
        state = self.lake.sql("SELECT state_id FROM steps").fetchone()[0]
        self.assertEqual(len(state), 20)
        for given in [state, state.hex()]:
            found = self.lake.sql("SELECT state_id FROM observations WHERE state_id = ?", [given])
            self.assertEqual(found.fetchall(), [(state,)])
        with self.assertRaisesRegex(steplake.UsageError, "not a object"):
            self.lake.sql("SELECT ?", [object()])
        with self.assertRaises(steplake.QueryError):
            self.lake.sql("SELECT ?", []).fetchall()

    def test_every_library_gets_the_same_rows(self):
        answer = self.lake.sql("SELECT * FROM observations ORDER BY state_id")
        table = answer.to_arrow_table()
        self.assertEqual(table.num_rows, self.lake.sql("SELECT * FROM observations").pl().height)
        self.assertEqual(pa.table(answer), table)
        self.assertEqual(answer.to_arrow_reader().read_all(), table)
        self.assertEqual(answer.pl()["Cost"].to_list(), table["Cost"].to_pylist())
        self.assertEqual(answer.df()["Cost"].to_list(), table["Cost"].to_pylist())
        self.assertEqual(len(answer.fetchall()), table.num_rows)
        # DuckDB finds the answer by its name, and asks it for its stream more than once.
        found = duckdb.sql("SELECT sum(Cost) FROM answer").fetchall()
        self.assertEqual(found, [(sum(table["Cost"].to_pylist()),)])

    def test_named_queries(self):
        names = {query.name for query in self.lake.queries()}
        self.assertIn("mean_reward", names)
        answer = self.lake.query("mean_reward", reward="Cost")
        self.assertEqual(answer.to_arrow_table().num_rows, len(answer.fetchall()))
        with self.assertRaises(steplake.UsageError):
            self.lake.query("no_such_query")
        with self.assertRaises(steplake.NotInLake):
            self.lake.query("mean_reward", reward="NoSuchReward")

    # These need observation spaces that the toy environment does not have.
    OF_OTHER_ENVIRONMENTS = ("option_effects", "shared_outputs", "throughput")

    def test_every_named_query_that_needs_nothing_has_the_columns_that_it_promises(self):
        for query in self.lake.queries():
            if any(default is None for _, _, default, _ in query.parameters):
                continue
            if query.name in self.OF_OTHER_ENVIRONMENTS:
                with self.assertRaisesRegex(steplake.NotInLake, "does not record the observation space"):
                    self.lake.query(query.name)
                continue
            answer = self.lake.query(query.name)
            self.assertEqual(pa.table(answer).schema, answer.to_arrow_table().schema, query.name)

    def test_what_there_is(self):
        tables = {table.name: table for table in self.lake.tables}
        self.assertEqual(tables["steps"].rows, 33)
        self.assertIn("state_id", [name for name, _, _ in tables["steps"].columns])
        self.assertEqual(self.lake.info()["environment"], "toy-v0")
        self.assertGreater(len(self.lake.snapshots().fetchall()), 1)
        self.assertIn("33", repr(self.lake.sql("SELECT count(*) AS n FROM steps")))
        self.assertIn("steplake.open(", repr(self.lake))

    def test_states(self):
        state = self.lake.sql("SELECT state_id FROM observations").fetchone()[0]
        self.assertEqual(self.lake.ir(state), self.lake.ir(state.hex()))
        with self.assertRaisesRegex(steplake.NoSuchState, "has no state 0000"):
            self.lake.ir("00" * 20)
        with self.assertRaisesRegex(steplake.UsageError, "40 hexadecimal digits"):
            self.lake.ir("short")

    def test_tensors_name_what_they_cannot_hold(self):
        with self.assertRaises(steplake.SteplakeError):
            self.lake.sql("SELECT benchmark_uri FROM steps").torch()

    def test_a_handle_travels(self):
        again = pickle.loads(pickle.dumps(self.lake))
        self.assertEqual(again.path, self.lake.path)
        self.assertEqual(again.sql("SELECT count(*) FROM steps").fetchone(), (33,))


class Upkeep(LakeCase):
    def test_a_lake_without_a_place(self):
        with self.assertRaisesRegex(steplake.NoSuchLake, "there is no lake at"):
            steplake.open(self.folder / "nothing")
        with self.assertRaises(FileNotFoundError):
            steplake.open(self.folder / "nothing")
        with self.assertRaisesRegex(steplake.NoSuchSnapshot, "no snapshot 1000"):
            steplake.open(self.lake.path, 1000)

    def test_an_older_snapshot_stays_as_it_was(self):
        path = self.folder / "grown"
        lake = record_toy(path, episodes=1)
        lake.dedup()
        newest = lake.snapshots().fetchall()[-1][0]
        before = steplake.open(path, snapshot=newest)
        record_toy(path, episodes=2)
        count = "SELECT count(*) FROM steps"
        self.assertEqual(before.sql(count).fetchone(), (11,))
        self.assertEqual(lake.sql(count).fetchone(), (33,))
        with self.assertRaises(steplake.SteplakeError):
            lake.close()
            steplake.open(path, snapshot=0)

    def test_nothing_is_counted_before_dedup(self):
        lake = record_toy(self.folder / "raw", episodes=1)
        with self.assertRaisesRegex(steplake.NotDeduplicated, "call `lake.dedup\\(\\)`"):
            lake.sql("SELECT * FROM state_transitions").fetchall()
        report = lake.dedup()
        self.assertEqual((report.steps, report.waiting), (10, 0))
        self.assertTrue(lake.sql("SELECT * FROM state_transitions").fetchall())

    def test_backfill(self):
        def record(name, spaces):
            env = steplake.make("toy-v0", benchmark="generator://toy-v0/1")
            with steplake.record(self.folder / name, env, observe=spaces) as recorded:
                recorded.reset()
                for action in range(6):
                    recorded.step(action)
            env.close()
            return steplake.open(self.folder / name)

        lake = record("bare", ["Cost"])
        with self.assertRaisesRegex(steplake.UsageError, "`Bit` is no observation space .*Bits, Number"):
            lake.backfill("Bit")
        report = lake.backfill(["Bits", "Number"], jobs=1)
        self.assertEqual((report.filled, report.had), (report.states, 0))
        self.assertEqual((report.without_path, report.elsewhere, report.failed), (0, 0, 0))
        self.assertEqual(report.snapshot, lake.snapshots().fetchall()[-1][0])
        self.assertIn(f"Bits, Number: {report.states} states filled", repr(report))
        recorded = record("whole", ["Cost", "Bits", "Number"])
        rows = "SELECT * FROM observations ORDER BY state_key"
        self.assertEqual(lake.sql(rows).fetchall(), recorded.sql(rows).fetchall())
        again = lake.backfill("Bits")
        self.assertEqual((again.filled, again.had, again.snapshot), (0, report.states, None))
        self.assertIn("nothing to do", again.text)

    def test_compaction(self):
        path = self.folder / "small"
        for _ in range(3):
            lake = record_toy(path, episodes=1)
            rows = lake.sql("SELECT * FROM steps ORDER BY episode_id, step_index").fetchall()
        files = "SELECT count(*) FROM segments WHERE table_name = 'steps'"
        self.assertEqual(lake.sql(files).fetchone(), (3,))
        self.assertGreater(lake.compact(), 3)
        self.assertEqual(lake.sql(files).fetchone(), (1,))
        self.assertEqual(lake.sql("SELECT * FROM steps ORDER BY episode_id, step_index").fetchall(), rows)
        self.assertTrue(lake.verify(replay=5))
        self.assertEqual(lake.compact(), 0)

    def test_verification(self):
        report = self.lake.verify(replay=5)
        self.assertTrue(report)
        self.assertEqual((report.findings, report.replayed, report.disagreeing), ([], 5, 0))
        self.assertIn("verify: sound", report.text)
        lake = record_toy(self.folder / "damaged", episodes=1)
        lake.seal()
        lake.close()
        segments = (self.folder / "damaged").glob("**/*.parquet")
        segment = max(segments, key=lambda one: one.stat().st_size)
        content = bytearray(segment.read_bytes())
        content[len(content) // 2] ^= 1
        segment.write_bytes(content)
        report = lake.verify()
        self.assertFalse(report)
        self.assertTrue(report.findings)


if __name__ == "__main__":
    unittest.main()
