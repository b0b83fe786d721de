"""The example `examples/online_rl`: what an agent sees and gets, against the lake and the wrappers.

`TORCH=yes scripts/test-python.sh` installs PyTorch and stable-baselines3. Without them, what learns
is left out. RLlib wants another Gymnasium, so it is tested only where somebody has installed it.
"""

import csv
import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import gymnasium
import numpy as np
import steplake
from gymnasium.vector import AutoresetMode
from steplake import wrappers

EXAMPLE = Path(__file__).parents[3] / "examples" / "online_rl"
MODULES = (
    "baselines",
    "judge",
    "main",
    "ppo",
    "programs",
    "report",
    "setting",
    "tables",
    "training",
)
has_torch = importlib.util.find_spec("torch") is not None

sys.path.insert(0, str(EXAMPLE))
import baselines  # noqa: E402
import judge  # noqa: E402
import main  # noqa: E402
import programs  # noqa: E402
import setting  # noqa: E402
import tables  # noqa: E402

if has_torch:
    import ppo
    import torch

# Other examples have modules of the same names.
sys.path.remove(str(EXAMPLE))
for name in MODULES:
    sys.modules.pop(name, None)

URIS = ["benchmark://steplake-v0/huffman", "benchmark://steplake-v0/fourier"]
STEPS = setting.EPISODE_STEPS


def chosen(steps, seed=0):
    """Return actions for two environments."""
    actions = len(setting.action_names())
    return np.random.default_rng(seed).integers(actions, size=(steps, 2))


def run_of(test, script, *options):
    """Return what a short run of a script writes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, EXAMPLE / f"{script}.py", folder, "--train", "steplake"]
        command += "--steps 90 --envs 2 --programs 2 --validation 1 --test-programs 1".split()
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        test.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads((Path(folder) / "run.json").read_text())
    [played] = result["test"]["steplake"]
    test.assertIn(f"{played['oz'] / played['final']:.3f}", done.stdout)
    test.assertTrue(result["checks"])
    return result


class Setting(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        env = steplake.make("llvm-v0")
        cls.addClassCleanup(env.close)
        cls.programs = [env.make_benchmark(uri) for uri in URIS]

    def vector(self, **options):
        vector = setting.PassOrdering(2, self.programs, **options)
        self.addCleanup(vector.close)
        return vector

    def played(self, vector, actions, **options):
        """Return what an agent sees and gets, by step."""
        seen = [vector.reset(options={"programs": self.programs})[0]]
        rewards, ends = [], []
        for row in actions:
            shown, reward, ended, cut, _ = vector.step(row)
            self.assertFalse(cut.any())
            seen.append(shown)
            rewards.append(reward)
            ends.append(ended)
        return np.array(seen), np.array(rewards), np.array(ends)

    def test_the_actions_are_those_of_the_paper(self):
        with (EXAMPLE / "actions.csv").open() as file:
            rows = list(csv.DictReader(file))
        env = steplake.make("llvm-v0", action_space="compilergym-v0")
        self.assertEqual(len(rows), 42)
        self.assertLess({row["flag"] for row in rows}, set(env.action_space.names))
        # What is left out says why, and so does what has another name.
        for row in rows:
            self.assertEqual(row["flag"] != f"-{row['action']}", bool(row["note"]), row)
        names = setting.action_names()
        self.assertEqual(len(names), len(set(names)))
        self.assertLess(set(names), set(steplake.make("llvm-v0").action_space.names))

    def test_what_an_agent_sees_and_gets_is_what_the_lake_has(self):
        actions = chosen(STEPS)
        with tempfile.TemporaryDirectory() as folder:
            vector = setting.PassOrdering(2, self.programs, record=Path(folder) / "lake")
            seen, rewards, ends = self.played(vector, actions)
            saved = vector.saved.copy()
            vector.close()
            with steplake.open(Path(folder) / "lake", progress=False) as lake:
                rows = lake.sql('SELECT hex(state_id), "Autophase" FROM observations').fetchall()
                known = {state.lower(): counts for state, counts in rows}
                episodes = list(lake.iterate_episodes())
                for place, uri in enumerate(URIS):
                    [episode] = [one for one in episodes if one.infos["benchmark"][0] == uri]
                    counts = np.array([known[state] for state in episode.infos["state_id"]])
                    total, history = counts[:, [51]], np.zeros((STEPS + 1, actions.max() + 1))
                    for step, action in enumerate(actions[:, place]):
                        history[step + 1 :, action] += 1 / STEPS
                    np.testing.assert_allclose(
                        seen[:, place, :56], np.minimum(counts / total, 1), rtol=1e-6
                    )
                    np.testing.assert_allclose(
                        seen[:, place, 56 : 56 + history.shape[1]], history, atol=1e-6
                    )
                    self.assertFalse(seen[:, place, 56 + history.shape[1] :].any())
                    oz = self.size_after_oz(uri)
                    of_oz = -np.diff(total[:, 0]) / max(total[0, 0] - oz, 1)
                    beyond = np.abs(of_oz) > 1
                    wanted = np.where(
                        beyond, np.sign(of_oz) * (1 + 0.001 * (np.abs(of_oz) - 1)), of_oz
                    )
                    np.testing.assert_allclose(rewards[:, place], wanted, atol=1e-12)
                    self.assertAlmostEqual(saved[place], of_oz.sum())
        np.testing.assert_array_equal(ends.any(axis=1), np.arange(STEPS) == STEPS - 1)

    def size_after_oz(self, uri):
        env = steplake.make("llvm-v0", benchmark=uri)
        env.reset()
        return env.observation["IrInstructionCountOz"]

    def test_what_an_agent_sees_and_gets_is_what_the_wrappers_make_of_it(self):
        actions = chosen(12)
        seen, rewards, _ = self.played(self.vector(), actions)
        for place, program in enumerate(self.programs):
            env = steplake.make("llvm-v0", benchmark=program, reward_space=setting.REWARD)
            env = wrappers.ConstrainedCommandline(env, setting.action_names())
            env = wrappers.AutophaseNormalizedFeatures(env)
            env = wrappers.ConcatActionsHistogram(env, norm_to_episode_len=STEPS)
            env = wrappers.ClampedReward(env)
            np.testing.assert_allclose(env.reset()[0], seen[0, place], atol=1e-6)
            for step, action in enumerate(actions[:, place]):
                observation, reward, *_ = env.step(action)
                np.testing.assert_allclose(observation, seen[step + 1, place], atol=1e-6)
                self.assertAlmostEqual(reward, rewards[step, place])
            env.close()

    def test_each_observation_is_in_its_space(self):
        for observe, width in zip(setting.OBSERVATIONS, (56, 56 + 35, 70, 70 + 35), strict=True):
            vector = self.vector(observe=observe)
            seen, _ = vector.reset(seed=1)
            self.assertEqual((seen.shape, seen.dtype), ((2, width), np.float32))
            self.assertIn(vector.step([1, 2])[0], vector.observation_space)

    def test_both_autoreset_modes_have_the_same_episodes(self):
        actions, ended = chosen(2 * STEPS, seed=2), {}
        for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
            vector = self.vector(autoreset_mode=mode, seed=3)
            seen, begun, finals = vector.reset(seed=3)[0], [], []
            rows = list(actions)
            begun.append(seen)
            while rows:
                row = rows.pop(0)
                seen, _, ends, _, infos = vector.step(row)
                if ends.all() and mode is AutoresetMode.SAME_STEP:
                    finals.append(np.array(list(infos["final_obs"])))
                    begun.append(seen)
                elif ends.all():
                    finals.append(seen)
                    begun.append(vector.step(row)[0])
            ended[mode] = (begun, finals, vector.finished)
        one, two = ended.values()
        np.testing.assert_array_equal(one[0], two[0])
        np.testing.assert_array_equal(one[1], two[1])
        self.assertEqual((one[2], len(one[2])), (two[2], 4))

    def test_a_lake_answers_as_the_compiler_does(self):
        actions = chosen(10)
        with tempfile.TemporaryDirectory() as folder:
            lake = Path(folder) / "lake"
            vector = setting.PassOrdering(2, self.programs, record=lake)
            wanted = self.played(vector, actions)
            vector.close()
            with steplake.open(lake, progress=False) as opened:
                opened.dedup()
            vector = setting.PassOrdering(2, self.programs, lake=lake)
            found = self.played(vector, actions)
            known = vector.compilers.envs[0].coverage
            self.assertEqual((known.from_lake, known.live_steps), (20, 0))
            # The compiler answers what the lake does not know.
            other = chosen(10, seed=1)
            found_live = self.played(vector, other)
            self.assertGreater(vector.compilers.envs[0].coverage.live_steps, 0)
            vector.close()
        for one, two in zip(
            wanted + self.played(self.vector(), other), found + found_live, strict=True
        ):
            np.testing.assert_array_equal(one, two)

    def test_the_judge_counts_instructions(self):
        vector = self.vector()
        plan = chosen(STEPS, seed=5)[:, 0]
        steps = iter(plan.repeat(2).reshape(-1, 2).tolist() * 2)
        # Three programs in two environments: one plays again, and does not count.
        played = judge.play(vector, lambda seen: next(steps), [*self.programs, self.programs[0]])
        self.assertEqual([one.program for one in played], [*URIS, URIS[0]])
        self.assertEqual(played[0], played[2])
        for one in played[:2]:
            env = steplake.make("llvm-v0", benchmark=one.program, observation_space=None)
            env.reset()
            costs = [env.observation["IrInstructionCount"]]
            for action in plan:
                [cost], *_ = env.step(
                    env.action_space[setting.action_names()[action]],
                    observation_spaces=["IrInstructionCount"],
                )
                costs.append(cost)
            self.assertEqual(
                (one.untouched, one.final, one.best), (costs[0], costs[-1], min(costs))
            )
            self.assertEqual(one.oz, self.size_after_oz(one.program))
            self.assertEqual(judge.ratios([one])[0], one.oz / costs[-1])

    def test_the_list_by_hand_is_played_in_its_order(self):
        vector = self.vector()
        names = [*baselines.BY_HAND.split()]
        names += names[-1:] * (STEPS - len(names))
        for one in judge.play(vector, baselines.by_hand(0), self.programs):
            env = steplake.make("llvm-v0", benchmark=one.program)
            env.reset()
            env.multistep([env.action_space[name] for name in names])
            self.assertEqual(one.final, env.observation["IrInstructionCount"])
        result = run_of(self, "baselines", "--algorithm", "random", "--seed", "3")
        self.assertEqual((result["algorithm"], result["steps"], result["curve"]), ("random", 0, []))

    def test_no_program_is_in_two_parts(self):
        env = steplake.make("llvm-v0", observation_space=None, reward_space=None)
        parts = {
            part: [one.uri for one in programs.programs(env, "steplake", part, 25)]
            for part in programs.PARTS
        }
        self.assertEqual(len(set(sum(parts.values(), []))), 25)
        packages = [name for names in programs.DEBIAN.values() for name in names.split()]
        self.assertEqual(len(packages), len(set(packages)))
        seeds = [set(range_[:200]) for range_ in programs.CSMITH.values()]
        self.assertEqual(len(set.union(*seeds)), sum(map(len, seeds)))


class ClampedReward(unittest.TestCase):
    def test_clamps(self):
        toy = steplake.make("toy-v0", benchmark="generator://toy-v0/1")
        self.addCleanup(toy.close)
        env = wrappers.ClampedReward(toy, min=-0.5, max=2, leakiness_factor=0.1)
        for reward, wanted in [(0.5, 0.5), (2, 2), (12, 3), (-0.5, -0.5), (-1.5, -0.6)]:
            self.assertAlmostEqual(env.convert_reward(reward), wanted)
        self.assertTrue(np.isnan(env.convert_reward(np.nan)))
        env.reset()
        rewards = [env.step(action)[1] for action in (0, 1, 2)]
        self.assertAlmostEqual(env.episode_reward, sum(rewards))
        self.assertRaises(steplake.UsageError, wrappers.ClampedReward, toy, min=1, max=0)


class SameStep(unittest.TestCase):
    def test_the_next_episode_begins_at_once(self):
        seeds = ["generator://toy-v0/1", "generator://toy-v0/2"]
        vector = gymnasium.make_vec(
            "steplake:toy-v0",
            num_envs=2,
            benchmark=seeds,
            max_episode_steps=3,
            autoreset_mode=AutoresetMode.SAME_STEP,
        )
        self.addCleanup(vector.close)
        first, _ = vector.reset()
        for _ in range(2):
            self.assertNotIn("final_obs", vector.step([0, 1])[4])
        vector.envs[1].benchmark = "generator://toy-v0/3"
        seen, _, ends, cuts, infos = vector.step([0, 1])
        self.assertEqual((ends.tolist(), cuts.tolist()), ([False] * 2, [True] * 2))
        self.assertEqual(infos["benchmark"].tolist(), [seeds[0], "generator://toy-v0/3"])
        self.assertEqual(infos["_final_obs"].tolist(), [True, True])
        np.testing.assert_array_equal(seen[0], first[0])
        for place, (seed, action) in enumerate(zip(seeds, (0, 1), strict=True)):
            alone = steplake.make("toy-v0", benchmark=seed)
            alone.reset()
            wanted, *_, info = alone.multistep([action] * 3)
            np.testing.assert_array_equal(infos["final_obs"][place], wanted)
            self.assertEqual(infos["final_info"]["state_id"][place], info["state_id"])
        self.assertEqual([env.actions for env in vector.envs], [[], []])
        with self.assertRaisesRegex(steplake.UsageError, "autoreset mode"):
            gymnasium.make_vec("steplake:toy-v0", autoreset_mode=AutoresetMode.DISABLED)


class Tables(unittest.TestCase):
    def test_means_and_files(self):
        def run(seed, finals):
            return {
                "script": "ppo",
                "algorithm": "ppo",
                "train": "csmith",
                "observe": "autophase",
                "seed": seed,
                "steps": 90,
                "seconds": 1.5,
                "curve": [{"steps": 45, "saved": 0.5}, {"steps": 90, "saved": 1.5}],
                "test": {
                    family: [
                        {"program": "p", "untouched": 9, "oz": 8, "final": final, "best": final}
                        for final in finals
                    ]
                    for family in programs.FAMILIES
                },
            }

        runs = [run(0, [4, 8]), run(1, [16, 8])]
        # Over the two seeds, both programs are as good as -Oz.
        np.testing.assert_allclose(tables.figures(runs, "csmith"), (1, 1, 1))
        mean, low, high = tables.figures(runs[:1], "csmith")
        self.assertAlmostEqual(mean, 2**0.5)
        self.assertLess(low, mean)
        self.assertLess(mean, high)
        with tempfile.TemporaryDirectory() as folder:
            tables.write(Path(folder), {name: [runs] for name in ("VI", "VII", "9")})
            lines = list(csv.DictReader((Path(folder) / "results.csv").read_text().splitlines()))
            text = (Path(folder) / "tables.md").read_text()
            self.assertIn("<svg", (Path(folder) / "curves.svg").read_text())
        self.assertEqual(len(lines), 3 * 2 * 3)
        self.assertEqual(lines[0]["mean"], "1.4142")
        self.assertIn("| PPO | one file | 90 | 2 | 1.000 (1.000 to 1.000) | 1.245 |", text)

    def test_a_run_that_is_there_is_not_made_again(self):
        cell = main.Cell(observe="instcount")
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / cell.folder(7)
            place.mkdir()
            (place / "run.json").write_text('{"steps": 1}')
            found = main.run(cell, 7, Path(folder), ["--no-such-option"])
        self.assertEqual(found, {"steps": 1, "script": "ppo"})


@unittest.skipUnless(has_torch, "PyTorch is not installed")
class Learning(unittest.TestCase):
    def test_advantages(self):
        dice = np.random.default_rng(0)
        rewards, values = dice.normal(size=(2, 6, 3))
        ends, after = dice.random((6, 3)) < 0.3, dice.normal(size=3)
        found = ppo.advantages(*map(torch.as_tensor, (rewards, values, 1.0 * ends, after)))
        for place in range(3):
            for begin in range(6):
                wanted, weight = 0.0, 1.0
                for step in range(begin, 6):
                    later = values[step + 1, place] if step < 5 else after[place]
                    later = 0 if ends[step, place] else later
                    surprise = rewards[step, place] + ppo.DISCOUNT * later - values[step, place]
                    wanted += weight * surprise
                    if ends[step, place]:
                        break
                    weight *= ppo.DISCOUNT * ppo.SMOOTHING
                self.assertAlmostEqual(float(found[begin, place]), wanted)

    def test_ppo_learns_the_same_with_the_same_seed(self):
        one, two = (run_of(self, "ppo", "--seed", "4") for _ in range(2))
        self.assertEqual(one["steps"], 90)
        self.assertEqual([x["saved"] for x in one["curve"]], [x["saved"] for x in two["curve"]])
        self.assertEqual(one["test"], two["test"])

    @unittest.skipUnless(importlib.util.find_spec("stable_baselines3"), "no stable-baselines3")
    def test_stable_baselines3(self):
        for algorithm in ("ppo", "a2c"):
            run_of(self, "sb3", "--algorithm", algorithm)

    @unittest.skipUnless(
        importlib.util.find_spec("ray") and importlib.util.find_spec("tree"), "no RLlib"
    )
    def test_rllib(self):
        for algorithm in ("ppo", "appo", "impala", "dqn"):
            run_of(self, "rllib", "--algorithm", algorithm)


if __name__ == "__main__":
    unittest.main()
