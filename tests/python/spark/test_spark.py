"""Dedup on Spark gives the rows of `steplake dedup`, and finds tables that are not these.

scripts/test-readers.sh runs it with SPARK=yes. STEPLAKE is the program, and steplake-remote lies beside it. Where
STEPLAKE_TEST_LAKE and STEPLAKE_TEST_LAYERED_LAKE are set, their lakes are counted too.
"""

import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections import Counter
from pathlib import Path
from unittest import mock

import deltalake
import pyarrow as pa
import pyarrow.parquet
import pyspark
import pyspark.sql

SOURCE = Path(__file__).parents[3] / "crates/python/python/steplake/spark.py"
TOY = ("generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..9")
# `scatter` leads elsewhere in each process, which makes conflicts. `invert` fails now and then.
UNSURE = ("generate", "--env", "toy-unsure-v0", "--benchmark", "generator://toy-v0/0..2", "--audit", 0)
UNSURE += ("--episodes", 150, "--episode-length", 60, "--ir", "none")
ORDERS = {
    "state_transitions": "state_key, state_id, action",
    "conflicts": "state_key, state_id, action, next_state_id",
    "failures": "state_key, state_id, action NULLS LAST",
}


def load():
    """The module without the package, as `spark-submit` takes it."""
    spec = importlib.util.spec_from_file_location("steplake_spark", SOURCE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


job = load()


def setUpModule():
    global spark
    builder = pyspark.sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g").config("spark.sql.shuffle.partitions", "3")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    unittest.addModuleCleanup(spark.stop)


def steplake(*arguments, lake):
    command = [os.environ["STEPLAKE"], "--quiet", "--lake", str(lake), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stderr}"
    return done.stdout


def plain(table):
    """The rows of a table: ids as bytes, and numbers as texts that tell 0.0 from -0.0."""
    exact = lambda value: value.hex() if isinstance(value, float) else value
    return [{name: exact(value) for name, value in row.items()} for row in table.to_pylist()]


def stored(folder):
    """The rows of all files of a folder, in the order of their names."""
    return pa.concat_tables(pa.parquet.read_table(path) for path in sorted(folder.glob("*.parquet")))


class Case(unittest.TestCase):
    def setUp(self):
        # pyspark leaves the sockets of collected rows to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        folder = tempfile.TemporaryDirectory(prefix="steplake spark's {1}-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.lake = self.folder / "lake"

    def own(self, name, lake):
        """A derived table of a lake, in order."""
        path = self.folder / f"{name}.parquet"
        question = f"SELECT * FROM {name} ORDER BY {ORDERS[name]}"
        steplake("sql", question, "--format", "parquet", "--output", path, lake=lake)
        return pa.parquet.read_table(path)

    def assert_equal_tables(self, lakes, lake, *, at_least=()):
        """The job makes of `lakes` the tables of `lake`. These have rows of the tables `at_least`."""
        output = self.folder / "output"
        shutil.rmtree(output, ignore_errors=True)
        rows = job.deduplicate(spark, lakes, output)
        for name in ORDERS:
            known, counted = self.own(name, lake), stored(output / name)
            self.assertEqual(counted.column_names, known.column_names)
            binary = lambda type: pa.binary() if pa.types.is_fixed_size_binary(type) else type
            wanted = [binary(type) for type in known.schema.types]
            self.assertEqual(counted.schema.types, wanted, name)
            self.assertEqual(plain(counted), plain(known), name)
            self.assertEqual(rows[name], known.num_rows)
            self.assertTrue(name not in at_least or known.num_rows > 0, f"no {name}")

    def differences(self, lakes):
        return [row.asDict() for row in job.verify(spark, lakes).collect()]


class Dedup(Case):
    def test_conflicts_and_failures_of_several_seals(self):
        for seed in range(3):
            steplake(*UNSURE, "--seed", seed, lake=self.lake)
            steplake("dedup", lake=self.lake)
        self.assert_equal_tables(self.lake, self.lake, at_least=ORDERS)
        self.assertEqual(self.differences(self.lake), [])
        with self.assertRaises(pyspark.errors.AnalysisException):
            job.deduplicate(spark, self.lake, self.folder / "output")

    def test_many_ranges_of_states(self):
        steplake(*UNSURE, lake=self.lake)
        steplake("dedup", lake=self.lake)
        with mock.patch.object(job, "_STEPS_PER_PART", 1000):
            self.assert_equal_tables(self.lake, self.lake)
        files = list((self.folder / "output/state_transitions").glob("*.parquet"))
        self.assertGreater(len(files), 4)

    def test_a_compiler(self):
        programs = [f"benchmark://steplake-v0/{name}" for name in ("huffman", "fourier")]
        for seed in (1, 2):
            steplake(
                *["generate", "--benchmark", programs[0], "--benchmark", programs[1], "--episodes", 12],
                *["--episode-length", 12, "--seed", seed],
                lake=self.lake,
            )
        steplake("dedup", lake=self.lake)
        self.assert_equal_tables(self.lake, self.lake)
        self.assertEqual(self.differences(self.lake), [])

    def test_rewards_that_older_files_lack(self):
        steplake(*TOY, "--episodes", 20, "--rewards", "Cost", lake=self.lake)
        steplake("dedup", lake=self.lake)
        steplake(*TOY, "--episodes", 20, "--rewards", "CostOz", "--seed", 7, lake=self.lake)
        steplake("dedup", lake=self.lake)
        self.assert_equal_tables(self.lake, self.lake)
        nulls = stored(self.folder / "output/state_transitions")["reward_Cost"].null_count
        self.assertGreater(nulls, 0)
        self.assertEqual(self.differences(self.lake), [])

    def test_only_sealed_steps_count(self):
        steplake(*TOY, "--episodes", 4, "--no-seal", lake=self.lake)
        self.assertEqual(job.deduplicate(spark, self.lake, self.folder / "none"), dict.fromkeys(ORDERS, 0))
        columns = ["state_id", "state_key", "action", "next_state_id", "next_state_key", "count", "wall_time_us"]
        columns += ["first_episode_id", "first_step_index", "reward_Cost", "reward_CostNorm", "reward_CostOz"]
        self.assertEqual(stored(self.folder / "none/conflicts").column_names, columns)
        self.assertEqual(self.differences(self.lake), [])
        steplake("seal", lake=self.lake)
        with self.assertRaisesRegex(ValueError, r"lacks \d+ steps: run `steplake dedup` first"):
            job.verify(spark, self.lake)
        steplake("dedup", lake=self.lake)
        self.assert_equal_tables([self.lake], self.lake)

    def test_retractions(self):
        steplake(*TOY, "--episodes", 20, lake=self.lake)
        steplake(*TOY, "--episodes", 20, "--seed", 7, lake=self.lake)
        steplake("retract", "--action", "double", "--reason", "a test", lake=self.lake)
        steplake("retract", "--run", "1", "--reason", "a test", lake=self.lake)
        steplake("dedup", lake=self.lake)
        self.assert_equal_tables(self.lake, self.lake)
        steplake("expire", "--keep", 1, lake=self.lake)
        self.assertEqual(self.differences(self.lake), [])

    def test_lakes_of_other_tests(self):
        for variable in ("STEPLAKE_TEST_LAKE", "STEPLAKE_TEST_LAYERED_LAKE"):
            if lake := os.environ.get(variable):
                with self.subTest(lake=variable):
                    self.assert_equal_tables(lake, lake, at_least=ORDERS)
                    if "LAYERED" not in variable:
                        self.assertEqual(self.differences(lake), [])
                        continue
                    with self.assertRaisesRegex(ValueError, "has deleted rows.*steplake dedup --full"):
                        job.verify(spark, lake)


class SeveralLakes(Case):
    def shards(self):
        lakes = [self.folder / f"shard {number}" for number in range(3)]
        # Begun in another order than that of their names.
        for number in (1, 0, 2):
            steplake(*UNSURE, "--seed", 5, "--shard", f"{number}/3", lake=lakes[number])
        return lakes

    def merged(self, lakes):
        steplake("merge", *lakes, "--into", self.lake, lake=self.lake)
        steplake("dedup", lake=self.lake)

    def test_shards_are_counted_as_their_merge(self):
        lakes = self.shards()
        steplake("retract", "--action", "halve", "--reason", "a test", lake=lakes[2])
        self.merged(lakes)
        self.assert_equal_tables(lakes, self.lake, at_least=ORDERS)
        for lake in lakes:
            steplake("dedup", lake=lake)
        self.assertEqual(self.differences(lakes), [])

    def test_a_lake_with_fewer_rewards(self):
        lakes = [self.folder / name for name in ("one", "other")]
        steplake(*TOY, "--episodes", 20, "--rewards", "Cost", lake=lakes[0])
        steplake(*TOY, "--episodes", 20, "--rewards", "Cost,CostOz", "--seed", 7, lake=lakes[1])
        self.merged(lakes)
        self.assert_equal_tables(lakes, self.lake)

    def test_published_lakes(self):
        # Its name is the same in an address.
        folder = tempfile.TemporaryDirectory(prefix="steplake-published-")
        self.addCleanup(folder.cleanup)
        lakes, places = self.shards(), [f"file://{folder.name}/{number}" for number in range(3)]
        steplake("retract", "--action", "halve", "--reason", "a test", lake=lakes[2])
        for lake, place in zip(lakes, places):
            steplake("publish", place, lake=lake)
        self.merged(lakes)
        self.assert_equal_tables(places, self.lake, at_least=ORDERS)
        self.assertEqual(self.differences(places), [])

    def test_lakes_that_do_not_go_together(self):
        one, copy, other, fewer = (self.folder / name for name in ("one", "copy", "other", "fewer"))
        steplake(*TOY, "--episodes", 4, "--rewards", "Cost", lake=one)
        shutil.copytree(one, copy, symlinks=True)
        steplake(*UNSURE, lake=other)
        steplake(*TOY, "--episodes", 4, "--rewards", "CostOz", lake=fewer)
        for lakes, message in [
            ([one, copy], "run .* is in .*one and in .*copy"),
            ([one, other], "the compiler of .* differ"),
            ([one, fewer], "the rewards of .* differ"),
            ([], "name at least one lake"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                job.derived_tables(spark, lakes)
        with self.assertRaisesRegex(FileNotFoundError, "there is no lake at .*/nothing"):
            job.derived_tables(spark, [one, self.folder / "nothing"])


class ReadBack(Case):
    """What Spark counted becomes the tables of a lake."""

    def take(self, lakes, lake, message=None, **options):
        """Have Spark count `lakes`, and `lake` take it, or say this."""
        output = self.folder / "output"
        shutil.rmtree(output, ignore_errors=True)
        job.deduplicate(spark, lakes, output, **options)
        self.take_output(output, lake, message)

    def take_output(self, output, lake, message=None):
        if message is None:
            self.assertRegex(steplake("dedup", "--counted", output, lake=lake), " steps? counted: ")
            return
        line = [os.environ["STEPLAKE"], "--quiet", "--lake", lake, "dedup", "--counted", output]
        done = subprocess.run(line, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertRegex(done.stderr, message)

    def assert_as_counted_here(self, lake):
        """The tables of a lake are those that a full dedup makes, in one layer, by all who read them."""
        here = self.folder / "here"
        shutil.copytree(lake, here, symlinks=True)
        steplake("dedup", "--full", lake=here)
        for name in ORDERS:
            taken, known = self.own(name, lake), self.own(name, here)
            self.assertEqual(taken.schema, known.schema)
            self.assertEqual(plain(taken), plain(known), name)
            self.assertGreater(known.num_rows, 0, name)
            delta = deltalake.DeltaTable(lake / "data" / name)
            self.assertEqual(delta.to_pyarrow_table().num_rows, known.num_rows)
        shutil.rmtree(here)
        self.assertIn("\nderived tables: equal; ", steplake("verify", "--derived", lake=lake))
        self.assertEqual(self.differences(lake), [])

    def test_a_lake_takes_what_was_counted_of_it(self):
        for seed in range(3):
            steplake(*UNSURE, "--seed", seed, lake=self.lake)
            steplake("dedup", lake=self.lake)
        with mock.patch.object(job, "_STEPS_PER_PART", 1000):
            self.take(self.lake, self.lake)
        self.assertGreater(len(list((self.folder / "output/state_transitions").glob("*.parquet"))), 4)
        self.assert_as_counted_here(self.lake)
        # What is recorded later is counted here.
        steplake(*UNSURE, "--seed", 9, lake=self.lake)
        steplake("dedup", lake=self.lake)
        self.assert_as_counted_here(self.lake)
        self.take_output(self.folder / "output", self.lake, "which the lake has counted")

    def test_steps_that_were_recorded_meanwhile(self):
        steplake(*UNSURE, "--seed", 1, lake=self.lake)
        output = self.folder / "output"
        job.deduplicate(spark, self.lake, output)
        steplake(*UNSURE, "--seed", 2, lake=self.lake)
        self.take_output(output, self.lake)
        info = json.loads(steplake("info", "--format", "json", lake=self.lake))
        self.assertGreater(info["uncounted_steps"], 0)
        steplake("dedup", lake=self.lake)
        self.assert_as_counted_here(self.lake)

    def test_shards_are_counted_and_then_merged(self):
        lakes = [self.folder / f"shard {number}" for number in range(3)]
        for number in (1, 0, 2):
            steplake(*UNSURE, "--seed", 5, "--shard", f"{number}/3", lake=lakes[number])
        output = self.folder / "output"
        job.deduplicate(spark, lakes, output)
        steplake("merge", *lakes, "--into", self.lake, lake=self.lake)
        self.take_output(output, self.lake)
        self.assert_as_counted_here(self.lake)
        self.take_output(output, lakes[0], "run .* has number|run .* is not in this lake")
        # Two of three shards are not all steps.
        self.take(lakes[:2], self.lake, "run .* has number|files of steps that were counted")

    def test_a_published_lake_is_counted_and_then_fetched(self):
        folder = tempfile.TemporaryDirectory(prefix="steplake-published-")
        self.addCleanup(folder.cleanup)
        place = f"file://{folder.name}/lake"
        steplake(*UNSURE, lake=self.lake)
        steplake("publish", place, lake=self.lake)
        fetched = self.folder / "fetched"
        steplake("fetch", place, lake=fetched)
        self.take(place, fetched)
        self.assert_as_counted_here(fetched)

    def test_tables_of_other_lakes_and_damaged_ones(self):
        other = self.folder / "other"
        steplake(*UNSURE, lake=self.lake)
        steplake(*UNSURE, lake=other)
        self.take(other, self.lake, "run .* is not in this lake")
        steplake(*TOY, "--episodes", 4, lake=self.folder / "toy")
        self.take(self.folder / "toy", self.lake, "has environment toy-v0, and this lake has toy-unsure-v0")
        output = self.folder / "output"
        shutil.rmtree(output)
        job.deduplicate(spark, self.lake, output)
        [path] = (output / "state_transitions").glob("*.parquet")
        table = pa.parquet.read_table(path)
        rows = table.to_pylist()
        rows[7]["first_step_index"] += 1
        pa.parquet.write_table(pa.Table.from_pylist(rows, table.schema), path, compression="zstd")
        self.take_output(output, self.lake, "has other values than follow from the steps")
        rows[7]["count"] += 1
        pa.parquet.write_table(pa.Table.from_pylist(rows, table.schema), path, compression="zstd")
        self.take_output(output, self.lake, "has other values than follow from the steps")


class Verify(Case):
    def test_wrong_rows_are_found(self):
        for seed in range(4):
            steplake(*UNSURE, "--seed", seed, lake=self.lake)
        steplake("dedup", lake=self.lake)
        wanted = Counter()
        for name in ORDERS:
            [path] = (self.lake / "data" / name).glob("*.parquet")
            table = pa.parquet.read_table(path)
            self.assertGreater(table.num_rows, 5, name)
            rows = table.to_pylist()
            # One row is lost, one comes twice, one has another count, one another first step.
            del rows[4]
            rows.append(rows[0])
            rows[1]["count"] += 1
            rows[2]["first_step_index"] += 1
            differ = 2
            if name == "state_transitions":
                rows[3]["reward_CostNorm"] = None
                differ = 3
            wanted += Counter({(name, "only counted"): 1, (name, "only in the lake"): 1, (name, "differs"): differ})
            path.unlink()
            pa.parquet.write_table(pa.Table.from_pylist(rows, table.schema), path)
        found = self.differences(self.lake)
        self.assertEqual(Counter((row["table"], row["difference"]) for row in found), wanted)
        self.assertEqual({row["lake"] for row in found}, {f"file://{self.lake}"})
        ids = {row["table"] for row in found if row["next_state_id"] is not None}
        self.assertEqual(ids, {"conflicts"})
        # The command says the same.
        done = self.command("--verify", self.lake)
        self.assertEqual(done.returncode, 4)
        self.assertIn(": state_transitions: 3 rows: differs\n", done.stdout)

    def test_the_command(self):
        steplake(*TOY, "--episodes", 4, lake=self.lake)
        steplake("dedup", lake=self.lake)
        rows = {name: self.own(name, self.lake).num_rows for name in ORDERS}
        done = self.command(self.lake, self.folder / "out put")
        said = f"{rows['state_transitions']:,} transitions, 0 conflicts, {rows['failures']:,} failures\n"
        self.assertEqual((done.returncode, done.stdout), (0, said))
        self.assertEqual(self.command(self.lake).returncode, 2)
        done = self.command(self.folder / "nothing", self.folder / "other")
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertRegex(done.stderr, "(?m)^there is no lake at .*nothing: ")

    def command(self, *arguments):
        environment = os.environ | {"PYSPARK_SUBMIT_ARGS": "--master local[1] pyspark-shell"}
        line = [sys.executable, SOURCE, *arguments]
        done = subprocess.run(line, capture_output=True, text=True, env=environment)
        self.assertNotIn("Traceback", done.stderr)
        return done


class ByHand(Case):
    """Lakes as no environment without a compiler makes them."""

    REWARDS = ["reward_A", "reward_B"]
    STEPS = pa.schema(
        [
            pa.field("episode_id", pa.int64(), False),
            pa.field("step_index", pa.int32(), False),
            pa.field("action", pa.int32()),
            pa.field("state_id", pa.binary(20)),
            pa.field("state_key", pa.int64()),
            pa.field("wall_time_us", pa.int64(), False),
            *(pa.field(name, pa.float64()) for name in REWARDS),
        ]
    )
    EPISODES = pa.schema(
        [
            pa.field("episode_id", pa.int64(), False),
            pa.field("steps", pa.int32(), False),
            pa.field("outcome", pa.string(), False),
            pa.field("detail", pa.string()),
        ]
    )

    def write(self, episodes):
        """A lake of (outcome, detail, path), where a path is a list of (action, state, time, rewards)."""
        steps, ends = [], []
        for number, (outcome, detail, path) in enumerate(episodes):
            id = 1 << 32 | number
            ends.append((id, sum(step[0] is not None for step in path), outcome, detail))
            for index, (action, state, time, rewards) in enumerate(path):
                key = state and int.from_bytes(state[:8], "big", signed=True)
                steps.append((id, index, action, state, key, time, *rewards))
        # Several files, so that episodes come out of order.
        for name, rows, schema in [("steps", steps, self.STEPS), ("episodes", ends, self.EPISODES)]:
            for part in (0, 1):
                some = [row for row in rows if row[0] % 2 == part]
                columns = list(zip(*some)) or [[]] * len(schema)
                arrays = [pa.array(column, field.type) for column, field in zip(columns, schema)]
                table = pa.table(arrays, schema)
                deltalake.write_deltalake(self.lake / "data" / name, table, mode="append")
        for name in ORDERS:
            for _ in range(2):
                deltalake.write_deltalake(self.lake / "data" / name, self.EPISODES.empty_table(), mode="append")
        actions = [{"name": f"a{number}"} for number in range(6)]
        identity = {"action_space": {"actions": actions}}
        (self.lake / "lake.json").write_text(json.dumps(identity))
        gone = [{"kind": "action", "value": "a5"}, {"kind": "run", "value": "9"}]
        (self.lake / "log").mkdir()
        for snapshot, whole, retractions in [(0, True, [{"kind": "action", "value": "a1"}]), (1, True, gone)]:
            entry = {"snapshot": snapshot, "whole": whole, "runs": [], "retractions": retractions}
            (self.lake / "log" / f"{snapshot:020}.json").write_text(f"{json.dumps(entry)}\n{'0' * 64}\n")

    def model(self, episodes):
        """The three tables, as the rule says."""
        edges, fixed = {}, lambda state: int.from_bytes(state[:8], "big", signed=True)
        for number, (outcome, detail, path) in enumerate(episodes):
            steps = [(path[at - 1][1], *path[at], at) for at in range(1, len(path)) if path[at][0] != 5]
            if len(path) == 1 and path[0][1] and outcome not in ("complete", "ended"):
                steps = [(path[0][1], None, None, 0, (None, None), 0)]
            for state, action, next, time, rewards, index in steps:
                edge = {"state_id": state, "state_key": fixed(state), "action": action}
                if next:
                    edge |= {"next_state_id": next, "next_state_key": fixed(next)}
                else:
                    edge |= {"kind": outcome, "detail": detail}
                edge |= {"count": 0, "wall_time_us": 0}
                edge |= {"first_episode_id": 1 << 32 | number, "first_step_index": index}
                edge |= dict(zip(self.REWARDS, rewards)) if next else {}
                known = edges.setdefault((state, action, next), edge)
                known["count"] += 1
                known["wall_time_us"] += time
        tables = {name: [] for name in ORDERS}
        for (state, action, next), edge in edges.items():
            if next is None:
                del edge["wall_time_us"]
                tables["failures"].append(edge)
                continue
            others = [other for key, other in edges.items() if key[:2] == (state, action) and key[2]]
            best = min(others, key=lambda other: (-other["count"], other["next_state_id"]))
            tables["state_transitions"] += [edge] if best is edge else []
            tables["conflicts"] += [edge] if len(others) > 1 else []
        return tables

    def test_random_episodes(self):
        seed = random.randrange(1 << 32)
        draw = random.Random(seed)
        states = [draw.randbytes(1) * 19 + draw.randbytes(1) for _ in range(6)]
        episodes = []
        for _ in range(150):
            outcome = draw.choice(["complete", "ended", "crash", "time-out"])
            failed = outcome in ("crash", "time-out")
            path = [(None, draw.choice(states), 0, (None, None))]
            if draw.random() < 0.8:
                for _ in range(draw.randrange(6)):
                    rewards = (draw.choice([None, draw.random(), -0.0]), draw.uniform(-1, 1))
                    path.append((draw.randrange(6), draw.choice(states), draw.randrange(1 << 40), rewards))
                if failed and len(path) > 1:
                    path[-1] = (path[-1][0], None, 9, (None, None))
            elif failed and draw.random() < 0.2:
                path = []
            if failed and len(path) > 1 and path[-1][1] is not None:
                outcome = "complete"
            episodes.append((outcome, draw.choice([None, "why"]) if outcome in ("crash", "time-out") else None, path))
        self.write(episodes)
        counted, known = job.derived_tables(spark, self.lake), self.model(episodes)
        for name, table in counted.items():
            rows = [row.asDict() for row in table.collect()]
            self.assertEqual(sorted(map(repr, rows)), sorted(map(repr, known[name])), f"{name}, seed {seed}")
            self.assertGreater(len(rows), 0)
        starts = [row for row in known["failures"] if row["action"] is None]
        self.assertGreater(len(starts), 0, seed)

    def test_damage_is_an_error(self):
        a, b = b"a" * 20, b"b" * 20
        first, none = (None, a, 0, (None, None)), (None, None)
        for path, outcome, message in [
            ([first, (1, None, 0, none), (2, b, 0, none)], "crash", "step 2 of episode 4294967296 does not follow"),
            ([(2, b, 0, none)], "complete", "step 0 of episode 4294967296 does not follow"),
            ([first, (1, None, 0, none)], "complete", "episode 4294967296 has no state after step 1, and its row no"),
        ]:
            shutil.rmtree(self.lake, ignore_errors=True)
            self.write([(outcome, None, path)])
            with self.assertRaisesRegex(pyspark.errors.PySparkException, message):
                job.deduplicate(spark, self.lake, self.folder / "damaged")
            shutil.rmtree(self.folder / "damaged", ignore_errors=True)


class Packages(unittest.TestCase):
    def test_a_message_says_what_to_install(self):
        for name in ("deltalake", "pyspark.sql"):
            with mock.patch.dict(sys.modules, {name: None}):
                with self.assertRaisesRegex(ImportError, f"needs .* {name[:7]}.*: `pip install pyspark deltalake`"):
                    job._imported(name)


if __name__ == "__main__":
    unittest.main()
