"""What a recording keeps."""

import random
import signal
import tempfile
import threading
import unittest
from pathlib import Path

import gymnasium
import steplake


class Recording(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "lake"

    def test_what_was_seen_is_what_was_recorded(self):
        env = steplake.make("llvm-v0", benchmark="benchmark://steplake-v0/orbits")
        seen = []
        with steplake.record(self.path, env, policy="every third", seed=4) as recorded:
            observation, info = recorded.reset()
            seen.append((info["state_id"], observation.tolist()))
            for action in range(0, 30, 3):
                observation, _, _, _, info = recorded.step(action)
                seen.append((info["state_id"], observation.tolist()))
        lake = steplake.open(self.path)
        rows = lake.sql(
            "SELECT state_id, Autophase FROM steps JOIN observations USING (state_id) "
            "ORDER BY step_index"
        ).fetchall()
        self.assertEqual([(state.hex(), values) for state, values in rows], seen)
        episodes = lake.sql("SELECT policy, seed, steps FROM episodes").fetchall()
        self.assertEqual(episodes, [("every third", 4, 10)])
        self.assertTrue(lake.verify())
        with self.assertRaisesRegex(steplake.UsageError, "call `reset` first"):
            env.step(0)
        env.close()

    def test_a_second_writer_is_told_the_way_out(self):
        first, second = (steplake.make("toy-v0") for _ in range(2))
        with steplake.record(self.path, first):
            with self.assertRaisesRegex(steplake.LakeBusy, "a lake of its own, and merge"):
                with steplake.record(self.path, second):
                    self.fail("two writers")
        with steplake.record(self.path, second) as recorded:
            recorded.reset()

    def test_an_error_keeps_what_was_recorded(self):
        env = steplake.make("toy-v0")
        with self.assertRaises(ZeroDivisionError), steplake.record(self.path, env) as recorded:
            recorded.reset()
            recorded.step(0)
            raise ZeroDivisionError
        count = steplake.open(self.path).sql("SELECT count(*) FROM steps").fetchone()
        self.assertEqual(count, (2,))

    def test_forks_and_vectors_share_a_recording(self):
        env = steplake.make("toy-v0", benchmark="generator://toy-v0/3")
        with steplake.record(self.path, env) as recorded:
            recorded.reset()
            recorded.step(0)
            fork = recorded.fork()
            fork.step(1)
            fork.close()
        vector = gymnasium.make_vec("steplake:toy-v0", num_envs=3)
        with steplake.record(self.path, vector) as recorded:
            recorded.reset()
            recorded.step([0, 1, 2])
        lake = steplake.open(self.path)
        counts = lake.sql("SELECT count(*) FROM steps GROUP BY episode_id ORDER BY episode_id")
        self.assertEqual([count for (count,) in counts.fetchall()], [2, 2, 2, 2, 2])

    def test_a_vector_records_what_its_environments_record_alone(self):
        programs = [f"benchmark://steplake-v0/{name}" for name in ["fourier", "huffman"]]
        rng = random.Random(7)
        # The environment alone has no greatest number of steps either.
        limits = {"max_episode_steps": -1}
        vector = gymnasium.make_vec("steplake:llvm-v0", num_envs=2, benchmark=programs, **limits)
        taken, has_ended = [], False
        with steplake.record(self.path, vector, keyframes=4) as recorded:
            recorded.reset()
            while len(taken) < 60 and not has_ended:
                taken.append([rng.randrange(92) for _ in programs])
                has_ended = any(recorded.step(taken[-1])[2])
        self.assertGreater(len(taken), 10)
        alone = self.path.with_name("alone")
        env = steplake.make("llvm-v0")
        with steplake.record(alone, env, keyframes=4) as recorded:
            for program, actions in zip(programs, zip(*taken, strict=True), strict=True):
                recorded.reset(options={"benchmark": program})
                for action in actions:
                    recorded.step(action)
        for statement in [
            "SELECT benchmark_uri, step_index, action, state_id, keyframe, end_of_episode, "
            "reward_IrInstructionCountOz FROM steps ORDER BY benchmark_uri, step_index",
            "SELECT * FROM observations ORDER BY state_id",
            "SELECT state_id, bitcode_sha1 FROM ir ORDER BY state_id",
        ]:
            found, wanted = (steplake.open(one).sql(statement) for one in [self.path, alone])
            self.assertEqual(found.fetchall(), wanted.fetchall())
        self.assertTrue(steplake.open(self.path).verify(replay=10))

    def test_the_end_of_a_recording_keeps_the_steps_of_open_forks(self):
        env = steplake.make("toy-v0", benchmark="generator://toy-v0/3")
        with steplake.record(self.path, env) as recorded:
            recorded.reset()
            recorded.step(0)
            fork = recorded.fork()
            fork.step(1)
            fork.step(2)
        with self.assertRaisesRegex(steplake.UsageError, "the recording .* has ended"):
            fork.step(0)
        count = steplake.open(self.path).sql("SELECT count(*) FROM steps").fetchone()
        # Each episode has a row for the state in which it begins.
        self.assertEqual(count, (2 + 3,))

    def test_an_environment_is_recorded_once_at_a_time(self):
        env = steplake.make("toy-v0")
        with steplake.record(self.path, env):
            with self.assertRaisesRegex(steplake.UsageError, "recorded already"):
                with steplake.record(self.path.with_name("other"), env):
                    self.fail("twice")
            env.reset()
        with steplake.record(self.path, env):
            env.reset()

    def test_ctrl_c_leaves_the_environment_where_its_session_is(self):
        env = steplake.make("llvm-v0", benchmark="benchmark://steplake-v0/orbits")
        action = env.action_space["instcombine"]
        with steplake.record(self.path, env):
            for delay in (0.01, 0.05, 0.2):
                env.reset()
                timer = threading.Timer(delay, signal.raise_signal, [signal.SIGINT])
                timer.start()
                with self.assertRaises(KeyboardInterrupt):
                    while True:
                        env.multistep(range(60))
                timer.join()
                self.assertTrue(env.validate(semantics=False).okay())
                env.step(action)
                taken = len(env.actions)
        counts = steplake.open(self.path).sql("SELECT steps FROM episodes ORDER BY episode_id")
        self.assertEqual(counts.fetchall()[-1], (taken,))

    def test_a_recording_that_cannot_begin_lets_go_of_the_lake(self):
        class Broken(steplake.env.CompilerEnv):
            def _use_sessions(self, session):
                raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            with steplake.record(self.path, Broken("toy-v0")):
                self.fail("it began")
        with steplake.record(self.path, steplake.make("toy-v0")) as recorded:
            recorded.reset()

    def hot_rows(self):
        return steplake.open(self.path).info()["tables"]["steps"]["hot_rows"]

    def test_who_records_seals_at_the_end(self):
        env = steplake.make("toy-v0", benchmark="generator://toy-v0/1")
        with steplake.record(self.path, env) as recorded:
            recorded.reset()
            recorded.step(0)
            self.assertEqual(steplake.open(self.path).info()["tables"]["steps"]["segments"], 0)
        self.assertEqual(self.hot_rows(), 0)
        with steplake.record(self.path, env, seal=False) as recorded:
            recorded.reset()
        self.assertGreater(self.hot_rows(), 0)
        run = {"environment": "toy-v0", "episodes": 4, "episode_length": 5}
        steplake.generate(self.path, "generator://toy-v0/0..3", **run)
        self.assertEqual(self.hot_rows(), 0)
        steplake.generate(self.path, "generator://toy-v0/0..3", **run, seed=1, seal=False)
        self.assertGreater(self.hot_rows(), 0)

    def test_runs(self):
        urls = "generator://toy-v0/0..3"
        run = steplake.generate(self.path, urls, environment="toy-v0", episodes=8, episode_length=5)
        self.assertTrue(run.is_complete)
        self.assertEqual(run.episodes, 8)
        again = steplake.generate(
            self.path, urls, environment="toy-v0", episodes=8, episode_length=5, resume=True
        )
        self.assertEqual((again.run_id, again.steps), (run.run_id, 0))
        with self.assertRaisesRegex(steplake.UsageError, "`steps`, `states` and `episodes`"):
            steplake.generate(self.path, urls, environment="toy-v0")
        with self.assertRaisesRegex(steplake.UsageError, "no policy"):
            steplake.generate(self.path, urls, environment="toy-v0", steps=1, policy="wise")


if __name__ == "__main__":
    unittest.main()
