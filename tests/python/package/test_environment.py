"""Environments in Gymnasium's interface, and their extensions."""

import pickle
import tempfile
import unittest
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import steplake
from gymnasium.utils.env_checker import check_env

HUFFMAN = "benchmark://steplake-v0/huffman"


class Llvm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.env = steplake.make("llvm-v0", benchmark=HUFFMAN)

    @classmethod
    def tearDownClass(cls):
        cls.env.close()

    def test_an_episode(self):
        env = self.env
        observation, info = env.reset(seed=1)
        self.assertEqual((observation.shape, observation.dtype), ((56,), np.int32))
        self.assertEqual(info["benchmark"], HUFFMAN)
        before = env.observation["IrInstructionCount"]
        observation, reward, terminated, truncated, info = env.step(env.action_space["mem2reg"])
        self.assertTrue(env.observation_space.contains(observation))
        self.assertFalse(terminated or truncated or info["action_had_no_effect"])
        saved = before - env.observation["IrInstructionCount"]
        self.assertEqual(env.reward["IrInstructionCount"], saved)
        self.assertEqual(env.reward["IrInstructionCountOz"], reward)
        self.assertEqual(env.step(env.action_space["mem2reg"])[4]["action_had_no_effect"], True)
        self.assertEqual(env.state.state_id, info["state_id"])
        self.assertTrue(env.validate().okay())
        self.assertIn("mem2reg", env.commandline())

    def test_command_lines_of_actions_that_set_options(self):
        with steplake.make("llvm-v0", benchmark=HUFFMAN, action_space="llvm22-param-v0") as env:
            env.reset()
            self.assertEqual(env.commandline(), "opt-22 input.bc -o output.bc")
            names = ["sroa", "with<unroll-count=4>(loop-unroll)", "sroa"]
            env.multistep([env.action_space[name] for name in names])
            parts = [
                "opt-22 -passes='function(sroa)' input.bc",
                "opt-22 -passes='function(loop-unroll)' -unroll-count=4",
                "opt-22 -passes='function(sroa)' -o output.bc",
            ]
            self.assertEqual(env.commandline(), " | ".join(parts))

    def test_a_reward_of_code_size(self):
        with steplake.make("llvm-v0", benchmark=HUFFMAN, reward_space="ObjectTextSizeOz") as env:
            env.reset()
            o0, oz = (env.observation[f"ObjectTextSize{of}"] for of in ("O0", "Oz"))
            sizes = [env.observation["ObjectTextSizeBytes"]]
            self.assertEqual(sizes[0], o0)
            for name in ["mem2reg", "instcombine", "mem2reg", "simplifycfg"]:
                _, reward, *_ = env.step(env.action_space[name])
                sizes.append(env.observation["ObjectTextSizeBytes"])
                self.assertEqual(reward, (sizes[-2] - sizes[-1]) / max(o0 - oz, 1))
            self.assertEqual(env.reward["ObjectTextSizeOz"], reward)
            self.assertTrue(env.validate(semantics=False).okay())
            # It is computed where it is wanted.
            self.assertNotIn("ObjectTextSizeBytes", list(env.reward))
            with self.assertRaisesRegex(steplake.UsageError, "reward_spaces"):
                env.reward["ObjectTextSizeBytes"]
            fork = env.fork()
            for one in (env, fork):
                action = one.action_space["gvn"]
                _, [reward], *_ = one.step(action, reward_spaces=["ObjectTextSizeBytes"])
                self.assertEqual(reward, sizes[-1] - one.observation["ObjectTextSizeBytes"])
            self.assertEqual(env.reward["ObjectTextSizeBytes"], reward)
            fork.close()
            with tempfile.TemporaryDirectory() as folder:
                lake = Path(folder, "lake")
                rewards = ["ObjectTextSizeOz", "IrInstructionCount"]
                with steplake.record(lake, env, rewards=rewards) as recorded:
                    recorded.reset()
                    wanted = [recorded.step(action)[1] for action in [3, 21, 28, 55]]
                with steplake.open(lake) as opened:
                    sql = 'SELECT "reward_ObjectTextSizeOz" FROM steps WHERE step_index > 0'
                    self.assertEqual([row[0] for row in opened.sql(sql).fetchall()], wanted)
                    opened.dedup()
                with steplake.make(
                    "replay-v0", lake=lake, benchmark=HUFFMAN, reward_space="ObjectTextSizeOz"
                ) as replayed:
                    replayed.reset()
                    again = [replayed.step(action)[1] for action in [3, 21, 28, 55]]
                    self.assertEqual(again, wanted)

    def test_vectors_are_dicts_and_tokens_are_tuples_for_a_look(self):
        env = self.env
        env.reset()
        for name in ["InstCount", "InstCountNorm", "Autophase"]:
            found = env.observation[f"{name}Dict"]
            self.assertEqual(list(found.values()), env.observation[name].tolist())
        self.assertEqual(
            env.observation["InstCountDict"]["TotalInsts"],
            env.observation["IrInstructionCount"],
        )
        tokens, tuples = env.observation["LexedIr"], env.observation["LexedIrTuple"]
        self.assertEqual([one[3] for one in tuples], tokens["token_value"])
        self.assertEqual([one[0] for one in tuples], tokens["token_id"].tolist())
        self.assertIn("AutophaseDict", env.observation)
        self.assertNotIn("IrDict", env.observation)
        self.assertEqual(len(env.observation), len(list(env.observation)))
        with self.assertRaisesRegex(steplake.UsageError, "no observation space 'IrDict'"):
            env.observation["IrDict"]

    def test_rewards_that_a_step_lacks_are_not_listed(self):
        with steplake.make("llvm-v0", benchmark=HUFFMAN, reward_space="ObjectTextSizeOz") as env:
            for begin in [lambda: None, env.reset]:
                begin()
                self.assertNotIn("ObjectTextSizeBytes", env.reward)
                self.assertIn("ObjectTextSizeOz", env.reward)
                self.assertNotIn("Nothing", env.reward)
            env.step(28)
            env.reward_space = "ObjectTextSizeBytes"
            self.assertNotIn("ObjectTextSizeBytes", env.reward)
            env.step(55)
            self.assertIn("ObjectTextSizeBytes", env.reward)

    def test_many_steps_at_once_are_the_same(self):
        env, actions = self.env, [3, 21, 28, 55, 28]
        env.reset()
        one_by_one = [env.step(action) for action in actions]
        env.reset()
        observation, reward, *_, info = env.multistep(actions)
        np.testing.assert_array_equal(observation, one_by_one[-1][0])
        self.assertAlmostEqual(reward, sum(step[1] for step in one_by_one))
        self.assertEqual(info["state_id"], one_by_one[-1][4]["state_id"])
        self.assertEqual(env.actions, actions)

    def test_other_spaces_of_one_step(self):
        env = self.env
        env.reset()
        observation, reward, *_ = env.step(
            28, observation_spaces=["IrInstructionCount", "InstCount"], reward_spaces=[]
        )
        self.assertEqual((len(observation), reward), (2, []))
        with self.assertRaisesRegex(steplake.UsageError, "no observation space 'Nothing'"):
            env.step(0, observation_spaces=["Nothing"])
        with self.assertRaisesRegex(steplake.UsageError, "there is no action 1000"):
            env.step(1000)

    def test_a_fork_goes_its_own_way(self):
        self.env.reset(seed=5)
        self.env.step(28)
        fork = self.env.fork()
        self.assertEqual(fork.state, self.env.state)
        self.assertEqual(fork.np_random.random(), self.env.np_random.random())
        self.assertEqual(fork.action_space.sample(), self.env.action_space.sample())
        there = self.env.step(21)[4]["state_id"]
        self.assertNotEqual(fork.state, self.env.state)
        self.assertEqual(fork.step(21)[4]["state_id"], there)
        fork.close()

    def test_gymnasium_finds_nothing_to_say(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = gymnasium.make("steplake:llvm-v0", benchmark=HUFFMAN)
            check_env(made.unwrapped)
            made.reset(seed=3)
            made.step(made.action_space.sample())
            made.close()
        self.assertEqual([str(one.message) for one in caught], [])

    def test_programs(self):
        env = self.env
        bitcode = env.make_benchmark(HUFFMAN).program
        env.reset(options={"benchmark": HUFFMAN})
        state = env.state.state_id
        env.reset(options={"benchmark": bitcode})
        self.assertEqual(env.state.state_id, state)
        self.assertTrue(env.benchmark.uri.startswith("benchmark://user-v0/"))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder).resolve() / "my progs" / "huff man.bc"
            path.parent.mkdir()
            path.write_bytes(bitcode)
            for named in [path, str(path), f"file://{path}", path.as_uri()]:
                env.reset(options={"benchmark": named})
                self.assertEqual(env.state.state_id, state)
                self.assertEqual(env.benchmark.uri, path.as_uri())
        with self.assertRaisesRegex(steplake.BadBenchmark, "huffmann"):
            env.benchmark = "benchmark://steplake-v0/huffmann"
        with self.assertRaisesRegex(steplake.BadBenchmark, "no such file"):
            env.benchmark = "nothing.bc"
        env.benchmark = b"not bitcode"
        with self.assertRaisesRegex(steplake.BadBenchmark, "cannot be read"):
            env.reset()
        env.benchmark = HUFFMAN
        dataset = env.datasets["benchmark://steplake-v0"]
        self.assertEqual(len(list(dataset.benchmark_uris())), dataset.size)

    def test_a_program_of_ones_own_has_a_name_of_its_own(self):
        env = steplake.make("toy-v0", benchmark="generator://toy-v0/1")
        program = env.benchmark.program
        pickled = pickle.loads(pickle.dumps(env.benchmark))
        self.assertEqual(pickled, env.benchmark)
        env.reset(options={"benchmark": pickled})
        wrong = steplake.Benchmark("generator://toy-v0/2", program)
        for benchmark in (wrong, pickle.loads(pickle.dumps(wrong))):
            with self.assertRaisesRegex(steplake.BadBenchmark, "give it another name"):
                env.reset(options={"benchmark": benchmark})
        env.reset(options={"benchmark": steplake.Benchmark("benchmark://user-v0/x", program)})
        env.step(0)
        state = env.state
        self.assertTrue(env.validate(state).okay())
        env.reset(options={"benchmark": "generator://toy-v0/2"})
        with self.assertRaisesRegex(steplake.BadBenchmark, "set `env.benchmark` to it first"):
            env.apply(state)
        env.reward_space = None
        env.reset(options={"benchmark": steplake.Benchmark("benchmark://user-v0/x", program)})
        self.assertTrue(env.validate(state).okay())
        env.close()
        with self.assertRaisesRegex(steplake.UsageError, "no state"):
            env.validate()

    def test_limits_have_bounds(self):
        for limits in ({"step_cpu_seconds": 0}, {"worker_memory_mib": 2**60}):
            with self.assertRaisesRegex(steplake.UsageError, "write a number from"):
                steplake.make("llvm-v0", **limits)

    def test_a_program_as_text(self):
        env = steplake.make("llvm-v0", benchmark=HUFFMAN, render_mode="ansi")
        env.reset()
        self.assertIn("define", env.render())
        self.assertIsNone(self.env.render())
        env.close()

    def test_every_observation_is_in_its_space(self):
        self.env.reset()
        for name, space in self.env.observation.spaces.items():
            value = self.env.observation[name]
            if isinstance(value, int | float):
                value = np.asarray(value, space.dtype)
            if isinstance(value, list):
                value = tuple(value)
            self.assertTrue(space.contains(value), name)


class Toy(unittest.TestCase):
    def test_a_crash_ends_the_episode_and_nothing_else(self):
        env = steplake.make("toy-v0", benchmark="generator://toy-v0/1")
        env.reset()
        # `invert` fails in one state of 251.
        for _ in range(251):
            env.step(env.action_space["increment"])
            fork = env.fork()
            observation, reward, terminated, _, info = fork.step(env.action_space["invert"])
            if terminated:
                break
        self.assertTrue(terminated)
        env = fork
        self.assertIn("crash", info["error"])
        self.assertIsNone(info["state_id"])
        self.assertEqual(reward, 0.0)
        self.assertTrue(env.observation_space.contains(observation))
        with self.assertRaisesRegex(steplake.UsageError, "call `reset` first"):
            env.step(0)
        env.reset()
        self.assertFalse(env.step(0)[2])

    def test_the_observation_after_a_failure_is_of_the_state_before(self):
        env = steplake.make("toy-v0", benchmark="generator://toy-v0/1")
        env.reset()
        invert, increment = env.action_space["invert"], env.action_space["increment"]
        for _ in range(251):
            env.step(increment, observation_spaces=["Number"])
            before = env.observation["Bits"].copy()
            fork = env.fork()
            observation, *_, info = fork.step(invert)
            if "error" in info:
                break
        np.testing.assert_array_equal(observation, before)
        observation[:] = 7
        other = env.fork()
        other.observation_space = None
        other.observation_space = "Bits"
        np.testing.assert_array_equal(other.step(invert)[0], before)

    def test_actions_are_numbers_of_the_space(self):
        env = steplake.make("toy-v0")
        env.reset()
        for action in (1.7, "0", -1, 8, 2**40):
            with self.assertRaisesRegex(steplake.UsageError, "action"):
                env.step(action)
        env.step(np.int64(1))
        vector = gymnasium.make_vec("steplake:toy-v0", num_envs=2)
        self.addCleanup(vector.close)
        vector.reset()
        for play in (env.multistep, vector.step):
            for action in (1, np.array(1)):
                with self.assertRaisesRegex(steplake.UsageError, "no sequence of actions"):
                    play(action)

    def test_names(self):
        with self.assertRaisesRegex(steplake.UsageError, "no environment `llvm-v1`"):
            steplake.make("llvm-v1")
        with self.assertRaisesRegex(steplake.UsageError, "no action space 'x'"):
            steplake.make("toy-v0", action_space="x")
        env = steplake.make("toy-v0", observation_space=None, reward_space=None)
        self.assertEqual(env.reset()[0].shape, (0,))
        self.assertEqual(env.step(0)[1], 0.0)
        env.close()
        with self.assertRaisesRegex(steplake.UsageError, "closed"):
            env.reset()


class Vector(unittest.TestCase):
    def test_a_member_that_cannot_begin_leaves_the_others_alone(self):
        vector = gymnasium.make_vec("steplake:toy-v0", num_envs=3)
        vector.reset()
        vector._ended[0] = True
        benchmark = steplake.Benchmark("benchmark://user-v0/none", b"no program")
        vector.envs[0].benchmark = benchmark
        with self.assertRaises(steplake.BadBenchmark):
            vector.step([0, 1, 2])
        self.assertEqual([env.actions for env in vector.envs[1:]], [[1], [2]])
        vector.envs[0].benchmark = "generator://toy-v0/1"
        vector.step([0, 1, 2])
        self.assertEqual([env.actions for env in vector.envs], [[], [1, 1], [2, 2]])
        self.assertTrue(all(env.validate().okay() for env in vector.envs))
        vector.close()

    def test_long_episodes_are_truncated(self):
        vector = gymnasium.make_vec("steplake:toy-v0", num_envs=2, max_episode_steps=3)
        vector.reset()
        for round_ in range(3):
            for step in range(3):
                _, _, ends, cuts, infos = vector.step([0, 0])
                self.assertEqual((list(ends), list(cuts)), ([False] * 2, [step == 2] * 2), round_)
                self.assertEqual(list(infos["_state_id"]), [True] * 2)
            _, rewards, ends, cuts, infos = vector.step([0, 0])
            self.assertEqual((list(rewards), list(ends), list(cuts)), ([0, 0], [False] * 2, [False] * 2))
            self.assertEqual([env.actions for env in vector.envs], [[], []])
            self.assertEqual(list(infos["benchmark"]), [env.benchmark.uri for env in vector.envs])
        vector.close()
        with self.assertRaisesRegex(steplake.UsageError, "max_episode_steps is 0"):
            gymnasium.make_vec("steplake:toy-v0", num_envs=2, max_episode_steps=0)

    def test_environments_step_as_each_alone(self):
        seeds = ["generator://toy-v0/1", "generator://toy-v0/2"]
        vector = gymnasium.make_vec(
            "steplake:toy-v0", num_envs=2, benchmark=seeds, max_episode_steps=-1
        )
        alone = [steplake.make("toy-v0", benchmark=seed) for seed in seeds]
        observations, _ = vector.reset(seed=0)
        for env, observation in zip(alone, observations, strict=True):
            np.testing.assert_array_equal(env.reset()[0], observation)
        ended = [False, False]
        rng = np.random.default_rng(5)
        for _ in range(2000):
            actions = rng.integers(8, size=2)
            observations, rewards, ends, _, infos = vector.step(actions)
            for place, env in enumerate(alone):
                if ended[place]:
                    expected = (env.reset()[0], 0.0, False)
                else:
                    expected = env.step(actions[place])[:3]
                np.testing.assert_array_equal(observations[place], expected[0])
                self.assertEqual((rewards[place], ends[place]), expected[1:])
                self.assertEqual(infos["state_id"][place], env.state.state_id)
            ended = list(ends)
        vector.close()


if __name__ == "__main__":
    unittest.main()
