"""A lake as an environment: `replay-v0`."""

import tempfile
import unittest
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import steplake
from gymnasium.utils.env_checker import check_env
from lakes import record_toy

BENCHMARK = "generator://toy-v0/1"
STEPS = "SELECT count(*) FROM steps WHERE action IS NOT NULL"


class Replay(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "lake"
        lake = record_toy(self.path, episodes=4, length=12)
        lake.dedup()
        lake.close()

    def count(self):
        with steplake.open(self.path) as lake:
            return lake.sql(STEPS).fetchone()[0]

    def test_the_lake_answers_what_the_compiler_would(self):
        before = self.count()
        live = steplake.make("toy-v0", benchmark=BENCHMARK)
        env = steplake.make("replay-v0", lake=self.path)
        self.assertEqual(env.benchmark.uri, BENCHMARK)
        self.assertEqual(env.action_space, live.action_space)
        self.assertEqual(env.compiler, live.compiler)
        for episode in range(4):
            observations = live.reset(), env.reset()
            np.testing.assert_array_equal(observations[0][0], observations[1][0])
            self.assertEqual(observations[0][1], observations[1][1])
            for step in range(12):
                action = (episode + step) % 7
                wanted, got = live.step(action), env.step(action)
                np.testing.assert_array_equal(got[0], wanted[0])
                self.assertEqual(got[1:], wanted[1:])
                self.assertEqual(env.reward["Cost"], live.reward["Cost"])
                if wanted[2]:
                    break
            self.assertTrue(env.validate().okay())
        self.assertEqual(env.coverage.from_lake, before)
        self.assertEqual((env.coverage.refused, env.coverage.conflicts), (0, 0))
        env.close()
        self.assertEqual(self.count(), before)

    def missing(self, env):
        """Bring an environment to the start of an edge that the lake does not have."""
        with steplake.open(self.path) as lake:
            known = lake.sql(
                "SELECT action FROM steps JOIN episodes USING (episode_id) WHERE step_index = 1"
            ).fetchall()
        env.reset()
        return next(action for action in range(8) if (action,) not in known)

    def test_a_missing_edge_is_an_error(self):
        env = steplake.make("replay-v0", lake=self.path)
        action = self.missing(env)
        state = env.state
        with self.assertRaisesRegex(steplake.MissingEdge, "another rule for missing edges"):
            env.step(action)
        self.assertEqual(env.state, state)
        # The steps before it were taken.
        first = 0
        with self.assertRaises(steplake.MissingEdge):
            env.multistep([first] + [action] * 300)
        self.assertEqual(env.actions[0], first)
        np.testing.assert_array_equal(env._last, env.observation["Bits"])
        self.assertEqual(env.state.state_id, env.fork().state.state_id)
        self.assertTrue(env.validate().okay())
        self.assertEqual(env.coverage.refused, 2)

    def test_or_changes_nothing(self):
        env = steplake.make("replay-v0", lake=self.path, missing_edge="stay")
        action = self.missing(env)
        state = env.state.state_id
        _, reward, terminated, _, info = env.step(action)
        self.assertEqual((reward, terminated, info["state_id"]), (0.0, False, state))
        self.assertEqual(env.coverage.stayed, 1)

    def test_or_asks_the_compiler_which_is_recorded(self):
        before = self.count()
        env = steplake.make("replay-v0", lake=self.path, missing_edge="live")
        action = self.missing(env)
        # What the lake has is not recorded again.
        env.step(0)
        env.reset()
        live = steplake.make("toy-v0", benchmark=BENCHMARK)
        live.reset()
        np.testing.assert_array_equal(env.step(action)[0], live.step(action)[0])
        fork = env.fork()
        self.assertEqual(fork.step(action)[1:], live.step(action)[1:])
        coverage = env.coverage
        self.assertEqual((coverage.from_lake, coverage.went_live, coverage.live_steps), (1, 1, 2))
        with self.assertRaises(steplake.LakeBusy):
            steplake.make("replay-v0", lake=self.path, missing_edge="live")
        executed = env.coverage.live_steps + env.coverage.replayed_steps
        # The one that is closed last ends the recording.
        env.close()
        self.assertEqual(fork.fork().state, fork.state)
        fork.step(0)
        executed += 1
        fork.close()
        # The rows of a fork begin with its state: what its compiler executed is its steps.
        self.assertEqual(self.count(), before + executed)
        with steplake.open(self.path) as lake:
            lake.dedup()
            self.assertTrue(lake.verify(replay=1000))
        env = steplake.make("replay-v0", lake=self.path)
        env.reset()
        env.multistep([action, action])
        self.assertEqual(env.state.state_id, live.state.state_id)

    def test_several_at_once_share_the_lake(self):
        vector = gymnasium.make_vec("steplake:replay-v0", num_envs=2, lake=self.path)
        vector.reset()
        self.assertIs(vector.envs[0]._core, vector.envs[1]._core)
        vector.step([0, 1])
        action = self.missing(vector.envs[0])
        with self.assertRaises(steplake.MissingEdge):
            vector.step([action, 2])
        self.assertEqual(vector.envs[1].actions, [1, 2])
        vector.close()

    def test_gymnasium_takes_it(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            env = gymnasium.make(
                "steplake:replay-v0", lake=self.path, missing_edge="stay", disable_env_checker=True
            )
            check_env(env.unwrapped, skip_render_check=True)

    def test_what_cannot_be(self):
        with self.assertRaisesRegex(steplake.UsageError, "write 'error', 'stay' or 'live'"):
            steplake.make("replay-v0", lake=self.path, missing_edge="guess")
        with self.assertRaises(steplake.NoSuchLake):
            steplake.make("replay-v0", lake=self.path / "nowhere")
        env = steplake.make("replay-v0", lake=self.path)
        with self.assertRaisesRegex(steplake.NotInLake, "choose one of its 1 benchmarks"):
            env.reset(options={"benchmark": "generator://toy-v0/9"})
        with self.assertRaisesRegex(steplake.UsageError, "missing_edge='live'"):
            with steplake.record(self.path, env):
                self.fail("recorded again")
        other = self.path.with_name("other")
        live = steplake.make("toy-v0")
        with steplake.record(other, live):
            live.reset()
            live.step(0)
        with self.assertRaisesRegex(steplake.NotDeduplicated, "dedup"):
            steplake.make("replay-v0", lake=other)


class Llvm(unittest.TestCase):
    def test_an_episode_of_llvm_needs_no_compiler(self):
        live = steplake.make("llvm-v0", benchmark="benchmark://steplake-v0/orbits")
        actions = [3, 50, 7, 20, 3, 3, 61, 12]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lake"
            with steplake.record(path, live):
                seen = [live.reset()[0]] + [live.step(action) for action in actions]
            with steplake.open(path) as lake:
                lake.dedup()
            env = steplake.make("replay-v0", lake=path)
            np.testing.assert_array_equal(env.reset()[0], seen[0])
            for action, wanted in zip(actions, seen[1:], strict=True):
                got = env.step(action)
                np.testing.assert_array_equal(got[0], wanted[0])
                self.assertEqual(got[1], wanted[1])
                self.assertEqual(got[4]["state_id"], wanted[4]["state_id"])
                self.assertEqual(env.compiler_seconds, 0.0)
            self.assertTrue(env.validate().okay())
            self.assertIn("opt-22", env.commandline())
            fork = env.fork()
            self.assertEqual(fork.state, env.state)
            env.close()


if __name__ == "__main__":
    unittest.main()
