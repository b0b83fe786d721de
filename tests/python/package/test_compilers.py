"""GCC's flags and loop nests: played, recorded, replayed and queried as LLVM's passes are."""

import pickle
import subprocess
import tempfile
import unittest
from pathlib import Path

import gymnasium
import numpy as np
import steplake
from gymnasium.utils.env_checker import check_env

HUFFMAN = "benchmark://steplake-v0/huffman"
PRODUCT = "benchmark://loops-v0/matmul-48x32x64"
SOURCE = "#define STEP 3\nint weigh(int count) { return count % STEP; }\n"


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def make(self, name, **options):
        env = steplake.make(name, **options)
        self.addCleanup(env.close)
        return env


def play(env, names):
    """Begins an episode, and returns what was seen and earned, by step."""
    observation, info = env.reset()
    seen = [(info["state_id"], np.asarray(observation).tolist())]
    rewards = []
    for name in names:
        observation, reward, terminated, _, info = env.step(env.action_space[name])
        assert not terminated, info
        seen.append((info["state_id"], np.asarray(observation).tolist()))
        rewards.append(reward)
    return seen, rewards


class Gcc(Folder):
    NAMES = ["-Os", "-fomit-frame-pointer", "-fno-tree-loop-optimize"]

    def test_an_episode(self):
        env = self.make("gcc-v0", benchmark=HUFFMAN, reward_space="obj_size_Os")
        observation, _ = env.reset()
        self.assertTrue(env.observation_space.contains(observation))
        self.assertEqual(set(observation.tolist()), {-1})
        baselines = {of: env.observation[f"obj_size_{of}"] for of in ("O0", "Os", "Oz")}
        sizes = [env.observation["obj_size"]]
        self.assertEqual(sizes, [baselines["O0"]])
        for name in self.NAMES:
            observation, reward, *_ = env.step(env.action_space[name])
            sizes.append(env.observation["obj_size"])
            saved = sizes[-2] - sizes[-1]
            self.assertAlmostEqual(reward, saved / (baselines["O0"] - baselines["Os"]))
        self.assertEqual(sizes[1], baselines["Os"])
        self.assertEqual((observation >= 0).sum(), len(self.NAMES))
        self.assertEqual(len(env.observation["obj"]), sizes[-1])
        self.assertIn(" ".join(self.NAMES), env.commandline())
        self.assertTrue(env.validate().okay())
        with env.fork() as fork:
            fork.step(fork.action_space["-O3"])
            self.assertIn("-O3", fork.commandline())
        self.assertIn("-Os", env.commandline())
        again = pickle.loads(pickle.dumps(env.state))
        env.reset()
        env.apply(again)
        self.assertEqual(env.state, again)

    def test_sources_and_programs_of_ones_own(self):
        env = self.make("gcc-v0", observation_space="obj_size")
        path = self.folder / "weigh.c"
        path.write_text(SOURCE)
        env.benchmark = path
        size, info = env.reset()
        self.assertTrue(info["benchmark"].endswith("/weigh.c"))
        # The object is the one that the compiler makes by hand.
        command = [env.commandline().split()[0], "-w", "-c", "weigh.c"]
        subprocess.run(command, cwd=self.folder, check=True)
        self.assertEqual(self.folder.joinpath("weigh.o").stat().st_size, size)
        env.benchmark = SOURCE.encode()
        with self.assertRaisesRegex(steplake.BadBenchmark, "line 1 .*`#define STEP 3`.*gcc -E -P"):
            env.reset()
        env.benchmark = path
        _, first = env.reset()
        env.benchmark = env.observation["source"].encode()
        again, info = env.reset()
        self.assertEqual((again, info["state_id"]), (size, first["state_id"]))
        # A program that does not compile has states all the same, and no outputs.
        wrong = b"int f( {\n"
        env = self.make("gcc-v0", benchmark=wrong, observation_space="choices", reward_space=None)
        env.reset()
        self.assertFalse(env.step(env.action_space["-O2"])[2])
        with self.assertRaisesRegex(steplake.CompilerFailed, "expected"):
            env.observation["asm_size"]
        self.assertFalse(env.step(env.action_space["-O3"])[2])
        # A step whose reward is of an output has failed without it.
        env.reward_space = "asm_size"
        env.reset()
        _, reward, terminated, _, info = env.step(env.action_space["-O2"])
        self.assertEqual((reward, terminated, info["state_id"]), (0, True, None))
        self.assertRegex(info["error"], "^rejected: .*expected")

    def test_a_lake_of_it(self):
        options = {"benchmark": HUFFMAN, "observation_space": "obj_size", "reward_space": "obj_size"}
        env = self.make("gcc-v0", **options)
        spaces = {"observe": ["obj_size", "choices", "asm_hash"], "rewards": ["obj_size"]}
        with steplake.record(self.folder / "lake", env, policy="by hand", **spaces) as recorded:
            seen, rewards = play(recorded, self.NAMES)
        lake = steplake.open(self.folder / "lake")
        lake.dedup()
        self.assertTrue(lake.verify(replay=10))
        rows = lake.sql(
            "SELECT state_id, obj_size FROM steps JOIN observations USING (state_id) ORDER BY step_index"
        ).fetchall()
        self.assertEqual([(state.hex(), size) for state, size in rows], seen)
        [best] = lake.query("best_choices").fetchall()
        self.assertEqual(best[0], HUFFMAN)
        # The lake answers what the compiler did.
        replay = self.make("replay-v0", lake=lake.path, observation_space="obj_size", reward_space="obj_size")
        self.assertEqual(play(replay, self.NAMES), (seen, rewards))
        self.assertTrue(replay.validate().okay())
        rows = lake.dataset("state_transitions", ["next_choices", "reward_obj_size"])[:]
        chosen = (rows["next_choices"] >= 0).sum(axis=1)
        self.assertEqual(sorted(chosen.tolist()), [1, 2, 3])
        self.assertEqual(rows["reward_obj_size"].sum(), sum(rewards))

    def test_vectors(self):
        check_env(self.make("gcc-v0", benchmark=HUFFMAN), skip_render_check=True)
        envs = gymnasium.make_vec("gcc-v0", num_envs=2, benchmark=HUFFMAN, reward_space="asm_size")
        self.addCleanup(envs.close)
        envs.reset(seed=0)
        observations, rewards, *_ = envs.step([2, 3])
        self.assertTrue(envs.observation_space.contains(observations))
        self.assertEqual((rewards > 0).tolist(), [True, True])


class Loops(Folder):
    NAMES = ["split[2,16]", "vectorize[3]", "parallel[0]"]

    def test_an_episode(self):
        env = self.make("loops-v0", benchmark=PRODUCT, reward_space="EstimatedCyclesNorm")
        env.reset()
        costs = [env.observation["EstimatedCycles"]]
        for name in self.NAMES:
            _, reward, _, _, info = env.step(env.action_space[name])
            self.assertFalse(info["action_had_no_effect"], name)
            costs.append(env.observation["EstimatedCycles"])
            self.assertAlmostEqual(reward, (costs[-2] - costs[-1]) / costs[0])
        self.assertLess(costs[-1], costs[0])
        self.assertIn("n 16 vectorize", env.observation["loop_tree"])
        self.assertEqual((env.observation["VectorLanes"], env.observation["Loops"]), (16, 4))
        # The kernel is compiled, checked and timed on this machine.
        self.assertGreater(env.observation["flops"], 0)
        self.assertEqual(env.commandline(), " ".join(self.NAMES))
        self.assertTrue(env.validate().okay())
        # A state is a program too.
        env.benchmark = env.observation["state"]
        state = env.state.state_id
        self.assertEqual(env.reset()[1]["state_id"], state)
        env.benchmark = b"// loops-v0 state 1\nn = 0\n"
        with self.assertRaisesRegex(steplake.BadBenchmark, "n is 0"):
            env.reset()

    def test_the_actions_of_loop_tool(self):
        env = self.make("loops-v0", action_space="loop_tool-v0", benchmark="benchmark://loops-v0/add-4096")
        env.reset()
        self.assertEqual(list(env.action_space.names), ["toggle_mode", "up", "down", "toggle_thread"])
        self.assertIn("n 4096 parallel", env.observation["loop_tree"])
        cursor, *_ = env.step(env.action_space["toggle_thread"])
        self.assertEqual(cursor.shape, (3,))
        self.assertNotIn("parallel", env.observation["loop_tree"])
        env.benchmark = PRODUCT
        with self.assertRaisesRegex(steplake.BadBenchmark, "one dimension"):
            env.reset()

    def test_a_lake_of_it(self):
        env = self.make("loops-v0", benchmark=PRODUCT, observation_space="Loops")
        with steplake.record(self.folder / "lake", env) as recorded:
            seen, rewards = play(recorded, self.NAMES)
        lake = steplake.open(self.folder / "lake")
        lake.dedup()
        self.assertTrue(lake.verify(replay=10))
        replay = self.make("replay-v0", lake=lake.path, observation_space="Loops")
        self.assertEqual(play(replay, self.NAMES), (seen, rewards))
        # Times are samples of this machine, and no rewards.
        lake.measure(states="best=1", samples=2)
        measured = lake.sql("SELECT count(*) FROM measurements").fetchone()
        self.assertGreaterEqual(measured[0], 2)
        [best] = lake.query("speedups").fetchall()
        self.assertEqual(best[0], PRODUCT)

    def test_vectors(self):
        check_env(self.make("loops-v0", benchmark=PRODUCT), skip_render_check=True)
        envs = gymnasium.make_vec("loops-v0", num_envs=2, benchmark=PRODUCT, observation_space="Loops")
        self.addCleanup(envs.close)
        envs.reset(seed=0)
        self.assertEqual(envs.step([0, 1])[0].tolist(), [4, 4])


