"""What the unmodified client does is in the lake."""

import os
import signal
import tempfile
import threading
import unittest
from pathlib import Path

import compiler_gym  # noqa: F401 (registers the environments)
import gym
from compiler_gym.errors import ServiceError
from support import HUFFMAN, Server, dedup, leave, query

PASSES = ["-mem2reg", "-instcombine", "-simplifycfg", "-instcombine", "-dce"]


def actions(env):
    return [env.action_space.flags.index(name) for name in PASSES]


class Recording(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="steplake-compiler-gym-")
        self.addCleanup(folder.cleanup)
        self.lake = Path(folder.name) / "lake"

    def make(self, server, benchmark=HUFFMAN):
        env = gym.make("llvm-v0", service=server.address, benchmark=benchmark, reward_space="IrInstructionCountOz")
        env.reset()
        return env

    def counts(self):
        return query(
            self.lake,
            "SELECT (SELECT count(*) FROM episodes) AS episodes, (SELECT count(*) FROM steps) AS steps, "
            "(SELECT count(*) FROM steps WHERE action IS NOT NULL) AS taken, "
            "(SELECT sum(count) FROM state_transitions) AS counted, "
            "(SELECT count(*) FROM state_transitions) AS transitions",
        )[0]

    def test_every_step_of_every_client(self):
        server = Server("--lake", self.lake)
        rewards = []

        def play(benchmark):
            env = self.make(server, benchmark)
            for action in actions(env):
                env.step(action)
            rewards.append(env.episode_reward)
            # A second episode of the same session, in one request.
            env.reset()
            env.multistep(actions(env))
            env.close()

        threads = [threading.Thread(target=play, args=[f"cbench-v1/{name}"]) for name in ["huffman", "fourier"] * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(server.stop(), 0)
        dedup(self.lake)
        counts = self.counts()
        self.assertEqual((counts["episodes"], counts["taken"], counts["steps"]), (8, 40, 48))
        self.assertEqual((counts["counted"], counts["transitions"]), (40, 10))
        # The client's rewards are the recorded ones.
        sums = 'SELECT sum("reward_IrInstructionCountOz") AS total FROM steps GROUP BY episode_id'
        totals = {round(row["total"], 5) for row in query(self.lake, sums)}
        self.assertEqual(totals, {round(reward, 5) for reward in rewards})
        names = query(self.lake, "SELECT DISTINCT action_name(action) AS name FROM steps WHERE action IS NOT NULL")
        self.assertEqual({row["name"] for row in names}, set(PASSES))
        # steplake has a cbench-v1 of its own, with other programs.
        uris = query(self.lake, "SELECT DISTINCT benchmark_uri FROM episodes ORDER BY benchmark_uri")
        wanted = [f"benchmark://compiler_gym-cbench-v1/{name}" for name in ["fourier", "huffman"]]
        self.assertEqual([row["benchmark_uri"] for row in uris], wanted)
        runs = query(self.lake, "SELECT finished FROM runs")
        self.assertEqual([row["finished"] for row in runs], [True])

    def test_forks_are_episodes_that_name_their_parents(self):
        server = Server("--lake", self.lake)
        env = self.make(server)
        env.multistep(actions(env)[:2])
        fork = env.fork()
        fork.multistep(actions(env)[2:])
        env.close()
        fork.close()
        self.assertEqual(server.stop(), 0)
        rows = query(self.lake, "SELECT steps, parent_episode_id IS NULL AS is_root FROM episodes ORDER BY steps")
        self.assertEqual([(row["steps"], row["is_root"]) for row in rows], [(2, True), (3, False)])

    def test_forks_keep_the_states_that_they_should_after_they_were_parked(self):
        server = Server("--lake", self.lake, "--live-sessions", 1, "--ir", "keyframes=3")
        names = PASSES[:3] + ["-gvn", "-loop-rotate", "-licm", "-indvars", "-loop-unroll", "-sroa", "-sccp", "-dce"]
        for before_fork in range(4):
            parent, other = self.make(server, "cbench-v1/fourier"), self.make(server)
            places = [parent.action_space.flags.index(name) for name in names]
            for place in places[:before_fork]:
                parent.step(place)
            fork = parent.fork()
            # Parks the fork.
            other.step(places[0])
            for place in places[before_fork:]:
                _, _, done, info = fork.step(place)
                self.assertFalse(done, info)
            for env in [fork, parent, other]:
                env.close()
        self.assertEqual(server.stop(), 0)
        lost = query(self.lake, "SELECT count(*) AS lost FROM steps WHERE ir(state_id) IS NULL")
        self.assertEqual(lost, [{"lost": 0}])

    def test_a_session_is_recorded_up_to_a_pipeline_that_is_no_action(self):
        server = Server("--lake", self.lake)
        env = self.make(server)
        env.multistep(actions(env)[:2])
        env.send_param("llvm.apply_baseline_optimizations", "-Oz")
        env.multistep(actions(env)[2:])
        fork = env.fork()
        fork.step(actions(env)[0])
        fork.close()
        env.close()
        self.assertEqual(server.stop(), 0)
        rows = query(self.lake, "SELECT steps, parent_episode_id IS NULL AS is_root FROM episodes")
        self.assertEqual([(row["steps"], row["is_root"]) for row in rows], [(2, True)])

    def test_sessions_that_are_live_at_the_end_are_whole(self):
        server = Server("--lake", self.lake, "--live-sessions", 1)
        envs = [self.make(server) for _ in range(3)]
        for env in envs:
            env.multistep(actions(env))
        self.assertEqual(server.stop(), 0)
        for env in envs:
            leave(env)
        dedup(self.lake)
        counts = self.counts()
        self.assertEqual((counts["episodes"], counts["taken"], counts["counted"]), (3, 15, 15))

    def test_a_session_that_runs_its_program_does_not_hold_up_the_end(self):
        server = Server("--lake", self.lake)
        busy, idle = self.make(server), self.make(server)
        for env in [busy, idle]:
            env.multistep(actions(env))
        # Hours, if nobody stops it.
        busy.runtime_observation_count = 1_000_000

        def run():
            with self.assertRaises(ServiceError):
                busy.observation["Runtime"]

        thread = threading.Thread(target=run)
        thread.start()
        self.assertIsNone(thread.join(timeout=2))
        self.assertTrue(thread.is_alive())
        self.assertEqual(server.stop(), 0)
        thread.join()
        for env in [busy, idle]:
            leave(env)
        dedup(self.lake)
        counts = self.counts()
        self.assertEqual((counts["episodes"], counts["counted"]), (2, 10))

    def test_a_kill_takes_only_what_is_younger_than_the_flush_interval(self):
        server = Server("--lake", self.lake)
        env = self.make(server)
        env.multistep(actions(env))
        env.reset()
        env.multistep(actions(env))
        # The second episode is open.
        taken = "SELECT count(*) AS steps FROM steps WHERE action IS NOT NULL"
        while query(self.lake, taken) != [{"steps": 10}]:
            self.assertIsNone(server.process.poll())
        self.assertEqual(server.stop(signal.SIGKILL), -signal.SIGKILL)
        leave(env)
        self.assertEqual(query(self.lake, taken), [{"steps": 10}])
        self.assertEqual(Server("--lake", self.lake).stop(), 0)

    def test_the_service_that_a_client_starts_records_too(self):
        # A relative lake is one of the client's folder.
        self.addCleanup(os.chdir, Path.cwd())
        os.chdir(self.lake.parent)
        arguments = [f"--lake={self.lake}", f"--lake={self.lake.name}"]
        for variable, value in [("STEPLAKE_LAKE", self.lake), *(("COMPILER_GYM_SERVICE_ARGS", it) for it in arguments)]:
            with self.subTest(variable):
                os.environ[variable] = str(value)
                self.addCleanup(os.environ.pop, variable, None)
                with gym.make("llvm-v0", benchmark=HUFFMAN) as env:
                    env.reset()
                    env.multistep(actions(env))
                del os.environ[variable]
        dedup(self.lake)
        self.assertEqual(self.counts()["counted"], 15)


if __name__ == "__main__":
    unittest.main()
