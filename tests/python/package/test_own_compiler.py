"""Compilers of one's own: Python classes as environments."""

import copy
import hashlib
import math
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pyarrow.parquet as pq
import steplake
from gymnasium.utils.env_checker import check_env
from number import Folder, Number, broken, energy
from steplake import wrappers
from steplake.vector import CompilerVectorEnv

REPOSITORY = Path(__file__).parents[3]


class Threads(Folder):
    def test_a_recording_ends_while_another_thread_steps(self):
        def apply(self, action):
            time.sleep(0.005)
            return Number.apply(self, action)

        env = self.made(broken(apply=apply))
        stopped = []

        def play():
            try:
                while True:
                    env.step(2)
            except steplake.UsageError as error:
                stopped.append(str(error))

        thread = threading.Thread(target=play)
        with steplake.record(self.path, env):
            env.reset()
            thread.start()
            time.sleep(0.1)
        thread.join(30)
        self.assertEqual(len(stopped), 1)
        self.assertTrue(steplake.open(self.path).verify())

    def test_a_call_that_comes_back_to_its_own_session_is_refused(self):
        said = []

        def apply(self, action):
            for call in (lambda: env.observation["Value"], env.close):
                try:
                    call()
                except steplake.UsageError as error:
                    said.append(str(error))

        env = self.made(broken(apply=apply))
        env.reset()
        env.step(0)
        self.assertEqual(len(said), 2)
        self.assertIn("in the middle of a call", said[0])


class Replayed(Folder):
    def test_a_lake_of_ones_own_compiler_is_an_environment_without_it(self):
        env = self.made(observation_space="Value")
        with steplake.record(self.path, env):
            seen = [env.reset()[0]]
            taken = [env.step(action) for action in [0, 1, 0]]
        with steplake.open(self.path) as lake:
            lake.dedup()
        cached = steplake.make("replay-v0", lake=self.path, observation_space="Value")
        self.assertEqual(cached.reset()[0], seen[0])
        for action, wanted in zip([0, 1, 0], taken, strict=True):
            self.assertEqual(cached.step(action)[:2], wanted[:2])
        self.assertEqual(cached.state.state_id, taken[-1][4]["state_id"])
        with self.assertRaisesRegex(steplake.CompilerUnavailable, "the environment `number-v0`"):
            steplake.make("replay-v0", lake=self.path, missing_edge="live")


class Environments(Folder):
    def test_an_episode(self):
        env = self.made(observation_space="Value")
        self.assertEqual(env.compiler, "number 1")
        self.assertEqual(env.action_space.names, tuple(Number.actions))
        observation, info = env.reset()
        self.assertEqual((observation, observation.dtype), (12, np.int64))
        self.assertEqual(info["state_id"], hashlib.sha1(b"12").hexdigest())
        observation, reward, terminated, truncated, info = env.step(0)
        self.assertEqual((observation, reward), (6, energy(12) - energy(6)))
        self.assertEqual((terminated, truncated, info["action_had_no_effect"]), (False,) * 3)
        self.assertEqual(env.reward["Value"], 6.0)
        self.assertTrue(env.step(env.action_space["keep"])[4]["action_had_no_effect"])
        observation, reward, *_ = env.multistep([0, 1])
        self.assertEqual(observation, 2)
        self.assertEqual(reward, energy(6) - energy(3) + (energy(3) - energy(2)))
        self.assertEqual(env.state.actions, (0, 2, 0, 1))
        self.assertTrue(env.validate().okay())
        self.assertEqual(env.commandline(), "halve keep halve decrement")

    def test_every_observation_is_in_its_space(self):
        warnings.simplefilter("ignore", UserWarning)
        env = self.made()
        env.reset()
        wanted = {
            "Value": 12,
            "Energy": energy(12),
            "Bits": np.array([0, 6], np.int32),
            "Roots": np.array([math.sqrt(12), math.cbrt(12)]),
            "Divisors": np.array([1, 2, 3, 4, 6, 12], np.int32),
            "Text": "the number 12",
            "Names": ["even"],
            "State": b"12",
        }
        self.assertEqual(set(env.observation), set(wanted))
        for name, space in env.observation.spaces.items():
            value = env.observation[name]
            np.testing.assert_array_equal(value, wanted[name], strict=not isinstance(value, list))
            if isinstance(value, int | float):
                value = np.asarray(value, space.dtype)
            self.assertTrue(space.contains(tuple(value) if name == "Names" else value), name)

    def test_a_fork_goes_its_own_way(self):
        class Copied(Number):
            def fork(self):
                return copy.copy(self)

        for compiler in [Number, Copied]:
            env = self.made(compiler)
            env.reset()
            env.step(0)
            fork = env.fork()
            self.assertEqual(fork.step(1)[4]["state_id"], hashlib.sha1(b"5").hexdigest())
            self.assertEqual(env.state.state_id, hashlib.sha1(b"6").hexdigest())
            fork.close()
            self.assertFalse(env.step(1)[2])

    def test_programs(self):
        env = steplake.make(Number)
        self.assertEqual(env.reset()[1]["benchmark"], "benchmark://number-v0/large")
        env.reset(options={"benchmark": "benchmark://number-v0/seven"})
        self.assertEqual(env.observation["Value"], 7)
        (dataset,) = env.datasets.values()
        self.assertEqual(dataset.size, 2)
        self.assertEqual(len(list(dataset.benchmarks())), 2)
        self.assertEqual([*dataset.benchmark_uris("s*")], ["benchmark://number-v0/seven"])
        file = self.path.with_suffix(".number")
        file.write_bytes(b"33")
        env.reset(options={"benchmark": file})
        self.assertEqual(env.observation["Value"], 33)
        with self.assertRaisesRegex(steplake.BadBenchmark, "did you mean `seven`"):
            env.benchmark = "benchmark://number-v0/sevn"
        with self.assertRaisesRegex(steplake.BadBenchmark, "invalid literal for int"):
            env.reset(options={"benchmark": b"many"})
        with self.assertRaisesRegex(steplake.CompilerFailed, "crash: RuntimeError: no way"):
            env.reset(options={"benchmark": b"kill"})
        env.reset(options={"benchmark": b"5"})
        self.assertFalse(env.step(0)[2])

    def test_gymnasium_finds_nothing_to_say(self):
        gymnasium.register("Number-v0", "steplake.env:CompilerEnv")
        self.addCleanup(gymnasium.registry.pop, "Number-v0")
        for compiler in [Number, lambda: Number()]:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                made = gymnasium.make("Number-v0", environment=compiler, benchmark=b"99")
                check_env(made.unwrapped)
                made.reset(seed=3)
                made.close()
            self.assertEqual([str(one.message) for one in caught], [])

    def test_a_vector(self):
        envs = CompilerVectorEnv(
            4, environment=Number, benchmark=[b"4", b"6", b"8", b"10"], observation_space="Energy"
        )
        self.addCleanup(envs.close)
        observations, _ = envs.reset()
        np.testing.assert_array_equal(observations, [energy(n) for n in (4, 6, 8, 10)])
        with steplake.record(self.path, envs) as recorded:
            recorded.reset()
            for _ in range(3):
                observations, rewards, ends, _, _ = recorded.step([0, 1, 0, 3])
        # The last failed, began anew, and failed again.
        np.testing.assert_array_equal(ends, [False, False, False, True])
        np.testing.assert_array_equal(observations[:3], [energy(n) for n in (0, 3, 1)])
        lake = steplake.open(self.path)
        self.assertEqual(lake.sql("SELECT count(*) FROM episodes").fetchone(), (5,))

    def test_a_wrapper(self):
        env = wrappers.TimeLimit(self.made(), 2)
        env.reset()
        self.assertEqual([env.step(1)[3] for _ in range(2)], [False, True])

    def test_what_ends_an_episode(self):
        env = self.made()
        env.reset()
        observation, reward, terminated, _, info = env.step(3)
        self.assertTrue(terminated)
        self.assertEqual((reward, info["state_id"]), (0.0, None))
        self.assertEqual(info["error"], "crash: ArithmeticError: cannot take 12")
        np.testing.assert_array_equal(observation, [0, 6])
        with self.assertRaisesRegex(steplake.UsageError, "call `reset` first"):
            env.step(0)
        for error, kind in [(MemoryError(), "out-of-memory"), (TimeoutError("late"), "time-out")]:
            def apply(self, action, error=error):
                raise error

            env = self.made(broken(apply=apply))
            env.reset()
            self.assertIn(f"{kind}: {type(error).__name__}", env.step(0)[4]["error"])

    def test_an_interrupt_is_no_failure(self):
        def apply(self, action):
            if action == "fail":
                raise KeyboardInterrupt
            return Number.apply(self, action)

        env = self.made(broken(apply=apply))
        with steplake.record(self.path, env) as recorded:
            recorded.reset()
            recorded.step(0)
            with self.assertRaises(KeyboardInterrupt):
                recorded.step(3)
            with self.assertRaisesRegex(steplake.UsageError, "call `reset` first"):
                recorded.step(0)
            recorded.reset()
            recorded.step(1)
        lake = steplake.open(self.path)
        self.assertEqual(lake.dedup().failures, 0)
        steps = "SELECT action FROM steps ORDER BY episode_id, step_index"
        self.assertEqual(lake.sql(steps).fetchall(), [(None,), (0,), (None,), (1,)])
        self.assertTrue(lake.verify())

    def test_an_environment_is_not_pickled(self):
        env = self.made()
        env.reset()
        with self.assertRaisesRegex(TypeError, "cannot pickle"):
            pickle.dumps(env)
        self.assertEqual(pickle.loads(pickle.dumps(env.state)), env.state)
        self.assertEqual(pickle.loads(pickle.dumps(env.benchmark)), env.benchmark)


class Lakes(Folder):
    def recorded(self, compiler=Number, **options):
        """Record two episodes, with a failure, and count their transitions."""
        env = self.made(compiler)
        with steplake.record(self.path, env, **options) as recorded:
            for actions in [[0, 1, 2, 0, 3], [1, 1, 0, 0, 0]]:
                recorded.reset()
                for action in actions:
                    recorded.step(action)
        lake = steplake.open(self.path, progress=False)
        self.addCleanup(lake.close)
        return lake

    # The states of the two episodes.
    VALUES = [12, 6, 5, 5, 2, None], [12, 11, 10, 5, 2, 1]

    def test_recorded_values_are_exact(self):
        every = [name for name in Number.observations]
        lake = self.recorded(observe=every)
        report = lake.dedup()
        self.assertEqual((report.steps, report.conflicts, report.failures), (10, 0, 1))
        rows = lake.sql(
            'SELECT state_id, "reward_Energy", "reward_Value" FROM steps '
            "ORDER BY episode_id, step_index"
        ).fetchall()
        wanted = []
        for values in self.VALUES:
            before = None
            for value in values:
                rewards = None, None
                if before is not None and value is not None:
                    rewards = energy(before) - energy(value), float(before - value)
                wanted.append((value and hashlib.sha1(b"%d" % value).digest(), *rewards))
                before = value
        self.assertEqual(rows, wanted)
        # Another tool reads the same, bit by bit.
        files = sorted((self.path / "current" / "observations").glob("*.parquet"))
        table = [row for file in files for row in pq.read_table(file).to_pylist()]
        found = {row["Value"]: row for row in table}
        self.assertEqual(sorted(found), [1, 2, 5, 6, 10, 11, 12])
        for value, row in found.items():
            number = Number()
            number.start(b"%d" % value)
            self.assertEqual(row["state_id"], hashlib.sha1(b"%d" % value).digest())
            for name in every:
                seen = number.observe(name)
                seen = seen.tolist() if isinstance(seen, np.ndarray) else seen
                self.assertEqual(row[name], seen, name)

    def test_a_question_about_floats(self):
        lake = self.recorded()
        lake.dedup()
        root = """avg(feature("Roots", 'square'))"""
        sql = f'SELECT sum("Energy"), max("Energy"), {root} FROM observations'
        total, most, roots = lake.sql(sql).fetchone()
        values = [1, 2, 5, 6, 10, 11, 12]
        self.assertAlmostEqual(total, sum(map(energy, values)), 12)
        self.assertEqual(most, energy(12))
        self.assertAlmostEqual(roots, sum(map(math.sqrt, values)) / len(values), 12)
        sql = (
            'SELECT feature_delta(b."Roots", a."Roots")[1] FROM observations b, observations a '
            'WHERE b."Value" = 6 AND a."Value" = 5'
        )
        ((change,),) = lake.sql(sql).fetchall()
        wanted = {"feature": "square", "before": math.sqrt(6), "after": math.sqrt(5)}
        self.assertEqual(change, wanted)
        (row,) = lake.query("best_cost", cost="Energy").to_arrow_table().to_pylist()
        self.assertEqual((row["cost"], row["best_cost"]), (energy(12), energy(1)))
        self.assertEqual(row["commandline"], "halve decrement halve halve")
        transitions = lake.sql(
            'SELECT o."Value", n."Value", t."reward_Energy", t.count FROM state_transitions t '
            "JOIN observations o ON o.state_id = t.state_id "
            "JOIN observations n ON n.state_id = t.next_state_id"
        ).fetchall()
        for before, after, reward, count in transitions:
            self.assertEqual(reward, energy(before) - energy(after))
            self.assertEqual(count, 2 if (before, after) == (5, 2) else 1)
        self.assertEqual(len(transitions), 8)

    def test_a_failure_is_of_its_action(self):
        lake = self.recorded()
        lake.dedup()
        row = "SELECT state_id, action_name(action), kind, detail, count FROM failures"
        detail = "ArithmeticError: cannot take 2"
        two = hashlib.sha1(b"2").digest()
        self.assertEqual(lake.sql(row).fetchall(), [(two, "fail", "crash", detail, 1)])
        outcomes = "SELECT outcome FROM episodes ORDER BY episode_id"
        self.assertEqual(lake.sql(outcomes).fetchall(), [("crash",), ("complete",)])

    def test_a_failed_start_is_an_episode_without_steps(self):
        env = self.made()
        with steplake.record(self.path, env) as recorded:
            with self.assertRaises(steplake.CompilerFailed):
                recorded.reset(options={"benchmark": b"kill"})
        lake = steplake.open(self.path)
        row = "SELECT steps, outcome, detail FROM episodes"
        self.assertEqual(lake.sql(row).fetchall(), [(0, "crash", "RuntimeError: no way")])

    def test_a_process_without_the_class_reads_the_lake(self):
        self.recorded(keyframes=1).close()
        code = f"""
import steplake
lake = steplake.open({str(self.path)!r}, progress=False)
print(lake.dedup().transitions, lake.info()["environment"])
print(lake.ir({hashlib.sha1(b"12").hexdigest()!r}))
verified = lake.verify()
print(bool(verified), verified.text)
try:
    lake.verify(replay=3)
except steplake.UsageError as error:
    print("refused:", error)
"""
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(out.stderr, "")
        said = "the lake is of the environment `number-v0`, which is not part of steplake"
        self.assertEqual(out.stdout.splitlines()[:2], ["8 number-v0", "12"])
        self.assertIn("True verify: sound", out.stdout)
        self.assertIn(f"the compiler is not available: {said}", out.stdout)
        self.assertIn(f"refused: {said}", out.stdout)

    def test_states_that_are_no_text(self):
        raw = broken(save=lambda self: b"\xff%d" % self.value)
        lake = self.recorded(raw)
        said = "the states of `number-v0` are no text"
        with self.assertRaisesRegex(steplake.SteplakeError, said):
            lake.ir(hashlib.sha1(b"\xff12").hexdigest())

    def test_a_context_is_of_one_compiler(self):
        self.recorded()
        for changes in ({"version": "number 2"}, {"name": "number-v1"}):
            with steplake.record(self.path, self.made(broken(**changes))) as recorded:
                recorded.reset()
                recorded.step(0)
        contexts = ["number-v0", "number-v0-number-v0", "number-v1"]
        self.assertEqual(steplake.open(self.path).contexts, contexts)
        others = {
            "action 1": {"actions": ["halve", "triple"]},
            "observation space Value": {"observations": {**Number.observations, "Value": str},
                                        "rewards": {"Energy": "Energy"}},
            "cost of the reward space Value": {"rewards": {"Value": "Energy"}},
        }
        for what, changes in others.items():
            with self.subTest(what), self.assertRaisesRegex(steplake.LakeError, what):
                with steplake.record(self.path, self.made(broken(**changes))):
                    pass
        # The same one goes on, and may have learnt something.
        more = broken(actions=[*Number.actions, "double"])
        with steplake.record(self.path, self.made(more)) as recorded:
            recorded.reset()
            recorded.step(0)
        self.assertEqual(steplake.open(self.path, context="number-v0").info()["actions"], 5)

    def test_states_that_nobody_can_rebuild_are_stored(self):
        with self.assertRaisesRegex(steplake.UsageError, "`keyframes=1`"):
            self.recorded(keyframes=3)
        lake = self.recorded(keyframes=None)
        with self.assertRaisesRegex(steplake.LakeError, "no state can be computed again"):
            lake.ir(hashlib.sha1(b"12").hexdigest())

    def test_what_a_class_may_not_do_is_not_recorded(self):
        def observe(self, space):
            return 5 if space == "Text" and self.value == 5 else Number.observe(self, space)

        env = self.made(broken(observe=observe))
        with steplake.record(self.path, env, observe=["Text"]) as recorded:
            recorded.reset()
            recorded.step(1)
            recorded.reset()
            recorded.step(0)
            with self.assertRaisesRegex(steplake.UsageError, "Broken.observe"):
                recorded.step(1)
            with self.assertRaisesRegex(steplake.UsageError, "call `reset` first"):
                recorded.step(1)
            recorded.reset()
            recorded.step(2)
        lake = steplake.open(self.path)
        lake.dedup()
        self.assertTrue(lake.verify())
        steps = "SELECT steps FROM episodes ORDER BY episode_id"
        self.assertEqual(lake.sql(steps).fetchall(), [(1,), (1,), (1,)])


class Pages(unittest.TestCase):
    def test_the_example(self):
        example = REPOSITORY / "examples" / "own_compiler.py"
        self.assertLessEqual(len(example.read_text().splitlines()), 100)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lake"
            out = subprocess.run(
                [sys.executable, example, path], capture_output=True, text=True, check=True
            )
            self.assertEqual(out.stdout.splitlines()[0], "646 steps, 120 transitions")
            self.assertIn("scale: 16.6 cycles, 3.5 after fold drop-unused", out.stdout)
            self.assertIn("fold: OverflowError: 4294967296 does not fit", out.stdout)
            with steplake.open(path, progress=False) as lake:
                self.assertTrue(lake.verify())


if __name__ == "__main__":
    unittest.main()
