"""Episodes of a lake: what `step` returned, drawn, filtered, played again, and in Minari's form."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import steplake
from lakes import LakeCase, record_toy
from steplake.episodes import EpisodeData

# In this state of the toy environment, the action `invert` fails.
FRAGILE = b"toy 65536 250"
# A worker with the least memory cannot read so much.
DIES_AT_ITS_START = bytes(60 << 20)
HAS_MINARI = all(importlib.util.find_spec(name) for name in ("minari", "PIL"))


def play(env, actions, **options):
    """Play an episode; what `reset` and `step` returned, in the form of `EpisodeData`."""
    observation, info = env.reset(**options)
    observations, infos, steps = [observation], [info], []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        observations.append(observation)
        infos.append(info)
        steps.append((action, reward, terminated, truncated))
        if terminated:
            break
    else:
        # The caller turns to something else, which no environment knows beforehand.
        steps[-1:] = [(*step[:3], True) for step in steps[-1:]]
    actions, rewards, terminations, truncations = zip(*steps, strict=True) if steps else [()] * 4
    return EpisodeData(
        -1,
        np.array(observations),
        np.array(actions, np.int64),
        np.array(rewards, np.float64),
        np.array(terminations, np.bool_),
        np.array(truncations, np.bool_),
        {
            "state_id": np.array([info["state_id"] or "" for info in infos]),
            "action_had_no_effect": np.array(
                [info.get("action_had_no_effect", False) for info in infos]
            ),
            "error": np.array([info.get("error", "") for info in infos]),
        },
    )


class EpisodesCase(unittest.TestCase):
    def assert_same(self, episode, wanted, but=()):
        for name in ["observations", "actions", "rewards", "terminations", "truncations"]:
            found, value = getattr(episode, name), getattr(wanted, name)
            np.testing.assert_array_equal(found, value, name, strict=name not in but)
        for name, values in wanted.infos.items():
            np.testing.assert_array_equal(episode.infos[name], values, name)

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Path(folder.name)

    def env(self, *arguments, **options):
        env = steplake.make(*arguments, **options)
        self.addCleanup(env.close)
        return env


class WhatStepReturned(EpisodesCase):
    def test_episodes_of_llvm(self):
        path = self.folder() / "lake"
        env = self.env("llvm-v0", benchmark="benchmark://steplake-v0/orbits", worker_memory_mib=256)
        names = [["mem2reg", "mem2reg", "gvn", "dce"], [], ["sroa", "instcombine", "simplifycfg"]]
        played = [[env.action_space[name] for name in some] for some in names]
        with steplake.record(path, env) as recorded:
            wanted = [play(recorded, actions) for actions in played]
            with self.assertRaises(steplake.CompilerFailed):
                recorded.reset(options={"benchmark": DIES_AT_ITS_START})
        lake = steplake.open(path)
        # Hot rows and sealed ones.
        for _ in range(2):
            found = list(lake.iterate_episodes())
            self.assertEqual([len(episode) for episode in found], [4, 0, 3])
            for episode, one in zip(found, wanted, strict=True):
                self.assert_same(episode, one)
            self.assertTrue(found[0].infos["action_had_no_effect"][2])
            self.assertEqual(set(found[0].infos["benchmark"]), {"benchmark://steplake-v0/orbits"})
            lake.seal()
        # A failed start is an episode without a state.
        self.assertEqual(lake.sql("SELECT count(*) FROM episodes").fetchone(), (4,))

    def test_every_space(self):
        path = self.folder() / "lake"
        for observed, rewarded in [
            ("InstCount", "IrInstructionCount"),
            ("IrInstructionCount", "IrInstructionCountNorm"),
            ("Autophase", "IrInstructionCountO3"),
            (None, None),
        ]:
            env = self.env(
                "llvm-v0",
                benchmark="benchmark://steplake-v0/huffman",
                observation_space=observed,
                reward_space=rewarded,
            )
            with steplake.record(path, env) as recorded:
                wanted = play(recorded, range(0, 40, 3))
            lake = steplake.open(path)
            *_, found = lake.iterate_episodes(observation_space=observed, reward_space=rewarded)
            self.assert_same(found, wanted)
        found = lake.iterate_episodes(observation_space=None, reward_space=None)
        self.assertEqual([one.infos["run_id"][0] for one in found], [1, 2, 3, 4])

    def test_a_failure_ends_an_episode_and_repeats_the_last_observation(self):
        path = self.folder() / "lake"
        env = self.env("toy-v0")
        increment, align = (env.action_space[name] for name in ("increment", "align"))
        invert = env.action_space["invert"]
        with steplake.record(path, env) as recorded:
            program = {"benchmark": FRAGILE}
            wanted = [
                play(recorded, [invert, increment], options=program),
                play(recorded, [increment, align, align], options=program),
                play(recorded, [increment, invert, invert, align], options=program),
            ]
        lake = steplake.open(path)
        for _ in range(2):
            found = list(lake.iterate_episodes())
            self.assertEqual([len(episode) for episode in found], [1, 3, 4])
            for episode, one in zip(found, wanted, strict=True):
                self.assert_same(episode, one)
            lake.seal()
        failed = found[0]
        self.assertEqual((failed.terminations.tolist(), failed.truncations.tolist()), ([1], [0]))
        self.assertIn("crash", failed.infos["error"][-1])
        np.testing.assert_array_equal(failed.observations[0], failed.observations[1])

    def test_texts_bytes_and_what_was_not_recorded(self):
        path = self.folder() / "lake"
        env = self.env("toy-v0", observation_space="Number")
        with steplake.record(path, env, observe=["Number", "Cost"], rewards=["Cost"]) as recorded:
            wanted = play(recorded, [0, 1, 2])
        lake = steplake.open(path)
        [found] = lake.iterate_episodes(observation_space="Number")
        self.assertEqual(found.observations.tolist(), wanted.observations.tolist())
        # There is no vector to be the default, so it is the first number.
        [found] = lake.iterate_episodes()
        self.assertEqual(found.observations.shape, (4,))
        env.benchmark = "generator://toy-v0/9"
        with steplake.record(path, env, observe=["Cost"], rewards=["CostNorm"]) as recorded:
            play(recorded, [0, 1])
        for space in ["observation_space", "reward_space"]:
            name = {"observation_space": "Number", "reward_space": "CostNorm"}[space]
            with self.assertRaisesRegex(steplake.NotInLake, f"without .* {name}.*`{space}`"):
                list(lake.iterate_episodes(**{space: name}))
        some = lake.filter_episodes("run_id = 1")
        self.assertEqual(len(list(some.iterate_episodes(observation_space="Number"))), 1)

    def test_open_episodes_are_left_out(self):
        path = self.folder() / "lake"
        env = self.env("toy-v0")
        recording = steplake.record(path, env)
        with recording as recorded:
            play(recorded, [0, 1, 2])
            play(recorded, [3, 4])
            recording._recording.flush()
            lake = steplake.open(path)
            self.assertEqual(lake.sql("SELECT count(*) FROM steps").fetchone(), (7,))
            self.assertEqual([len(episode) for episode in lake.iterate_episodes()], [3])
            some = lake.filter_episodes("true")
        self.assertEqual([len(episode) for episode in lake.iterate_episodes()], [3, 2])
        self.assertEqual((len(some), len(list(some))), (1, 1))


class Choice(LakeCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        record_toy(cls.lake.path, episodes=30, length=4).close()
        rows = cls.lake.sql("SELECT episode_id FROM episodes ORDER BY 1").fetchall()
        cls.ids = [id for (id,) in rows]

    def test_ids(self):
        self.assertEqual([episode.id for episode in self.lake.iterate_episodes()], self.ids)
        self.assertEqual(len({id >> 32 for id in self.ids}), 2)
        wanted = [self.ids[20], self.ids[2], self.ids[20], self.ids[7]]
        found = list(self.lake.iterate_episodes(wanted))
        self.assertEqual([episode.id for episode in found], wanted)
        self.assertEqual([len(episode) for episode in found], [4, 10, 4, 4])
        self.assertEqual(list(self.lake.iterate_episodes([])), [])
        with self.assertRaisesRegex(steplake.NotInLake, "no episode 5 here"):
            self.lake.iterate_episodes([self.ids[0], 5])
        with self.assertRaisesRegex(steplake.NotInLake, "no reward space 'Pay': it has Cost,"):
            self.lake.iterate_episodes(reward_space="Pay")

    def test_many_queries_read_what_one_reads(self):
        wanted = list(self.lake.iterate_episodes())
        with mock.patch("steplake.episodes._ROWS_PER_QUERY", 12):
            found = list(self.lake.iterate_episodes())
        self.assertEqual([one.id for one in found], [one.id for one in wanted])
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one.observations, other.observations)

    def test_an_episode_stands_alone(self):
        first, second = self.lake.iterate_episodes(self.ids[:2])
        wanted = second.observations.copy()
        first.observations[:] = 0
        np.testing.assert_array_equal(second.observations, wanted)
        self.assertIn(f"id={first.id}, total_steps=10", repr(first))

    def test_a_sample_is_that_of_its_seed(self):
        drawn = [[one.id for one in self.lake.sample_episodes(9, seed)] for seed in (1, 1, 2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])
        self.assertEqual(len(set(drawn[0])), 9)
        with self.assertRaisesRegex(steplake.UsageError, "33 episodes, and not 34"):
            self.lake.sample_episodes(34)

    def test_filters(self):
        long = self.lake.filter_episodes("steps > ?", [4])
        self.assertEqual((len(long), long.total_steps), (3, 30))
        self.assertEqual([episode.id for episode in long], self.ids[:3])
        some = long.filter_episodes("ordinal = 1 -- the second of its run")
        self.assertEqual([episode.id for episode in some.iterate_episodes()], [self.ids[1]])
        self.assertEqual([one.id for one in some.sample_episodes(1)], [self.ids[1]])
        self.assertEqual(len(long.filter_episodes("false")), 0)
        self.assertEqual(list(long.filter_episodes("false")), [])
        gaining = (
            "episode_id IN (SELECT episode_id FROM steps GROUP BY 1 HAVING sum(reward_Cost) > 0)"
        )
        wanted = [one.id for one in self.lake.iterate_episodes() if one.rewards.sum() > 0]
        found = [one.id for one in self.lake.filter_episodes(gaining)]
        self.assertEqual(found, wanted)
        with self.assertRaisesRegex(steplake.QueryError, "`nosuch`"):
            self.lake.filter_episodes("nosuch = 1")
        with self.assertRaisesRegex(steplake.NotInLake, "no episode"):
            long.iterate_episodes(self.ids[3:4])


class Recovery(EpisodesCase):
    def replayed(self, lake, episode):
        env = lake.recover_environment(episode)
        self.addCleanup(env.close)
        return env, play(env, episode.actions)

    def test_an_episode_of_a_dataset(self):
        path = self.folder() / "lake"
        run = steplake.generate(
            path, "benchmark://steplake-v0/h*", episodes=4, episode_length=6, progress=False
        )
        self.assertEqual(run.episodes, 4)
        lake = steplake.open(path)
        for episode in lake.iterate_episodes():
            env, again = self.replayed(lake, episode)
            self.assert_same(episode, again)
            self.assertEqual(env.benchmark.uri, episode.infos["benchmark"][0])
        env = lake.recover_environment(episode.id, observation_space="InstCount", reward_space=None)
        self.addCleanup(env.close)
        self.assertEqual((env.observation_space_name, env.reward_space_name), ("InstCount", None))
        self.assertIsNone(lake.recover_environment(reward_space=None).reward_space)
        with self.assertRaisesRegex(steplake.NotInLake, "no episode 3 here"):
            lake.recover_environment(3)

    def test_a_program_of_ones_own_comes_from_the_lake(self):
        folder = self.folder()
        env = self.env("llvm-v0", benchmark="benchmark://steplake-v0/huffman")
        program = env.benchmark.program
        own = steplake.Benchmark("benchmark://mine-v0/one", program, family="a", licence="MIT")
        file = folder / "two.bc"
        file.write_bytes(program)
        actions = [env.action_space[name] for name in ("mem2reg", "gvn", "simplifycfg")]
        for keyframes in [1, None]:
            path = folder / f"lake-{keyframes}"
            with steplake.record(path, env, keyframes=keyframes) as recorded:
                for benchmark in [own, str(file), program]:
                    play(recorded, actions, options={"benchmark": benchmark})
        file.unlink()
        lake = steplake.open(folder / "lake-1")
        for episode in lake.iterate_episodes():
            again, found = self.replayed(lake, episode)
            self.assert_same(episode, found)
            self.assertRegex(again.benchmark.uri, "benchmark://user-v0/[0-9a-f]{40}")
            self.assertNotEqual(again.benchmark.uri, episode.infos["benchmark"][0])
        first = next(lake.iterate_episodes())
        self.assertEqual(self.replayed(lake, first)[0].benchmark.licence, "MIT")
        lake = steplake.open(folder / "lake-None")
        for episode in lake.iterate_episodes():
            with self.assertRaisesRegex(steplake.BadBenchmark, "does not store its first state"):
                lake.recover_environment(episode)

    def test_a_file_with_another_program_is_not_taken_for_the_first(self):
        folder = self.folder()
        env = self.env("llvm-v0", benchmark="benchmark://steplake-v0/huffman")
        file = folder / "program.bc"
        file.write_bytes(env.benchmark.program)
        with steplake.record(folder / "lake", env) as recorded:
            wanted = play(recorded, [0, 1, 0], options={"benchmark": str(file)})
        file.write_bytes(env.make_benchmark("benchmark://steplake-v0/orbits").program)
        lake = steplake.open(folder / "lake")
        again = self.replayed(lake, next(lake.iterate_episodes()))[1]
        self.assert_same(again, wanted)

    def test_a_fork_says_where_it_began(self):
        path = self.folder() / "lake"
        env = self.env("toy-v0", benchmark="generator://toy-v0/3")
        with steplake.record(path, env) as recorded:
            recorded.reset()
            early = recorded.fork()
            recorded.step(0)
            recorded.step(1)
            fork = recorded.fork()
            for one in (early, fork):
                one.step(2)
        lake = steplake.open(path)
        found = {episode.id & 0xFFFF: episode for episode in lake.iterate_episodes()}
        self.assertEqual(len(found), 3)
        self.assertEqual(found[0].infos["state_id"][2], found[2].infos["state_id"][0])
        self.assert_same(found[1], self.replayed(lake, found[1])[1])
        with self.assertRaisesRegex(steplake.UsageError, f"episode {found[0].id} after 2 actions"):
            lake.recover_environment(found[2])


@unittest.skipUnless(HAS_MINARI, "minari is not installed: `pip install 'steplake[minari]'`")
class Minari(EpisodesCase):
    def setUp(self):
        folder = self.folder()
        self.enterContext(mock.patch.dict(os.environ, MINARI_DATASETS_PATH=str(folder / "minari")))
        self.enterContext(warnings.catch_warnings())
        # Minari warns of every option that is not given.
        warnings.simplefilter("ignore")
        self.path = folder / "lake"

    def test_a_dataset_has_the_same_episodes(self):
        import minari

        env = self.env("toy-v0", benchmark=FRAGILE)
        invert = env.action_space["invert"]
        with steplake.record(self.path, env) as recorded:
            for actions in [[0, 1, 2, 2], [invert], [], [0, 0, 5]]:
                play(recorded, actions)
        lake = steplake.open(self.path)
        written = lake.to_minari("compilers/toy-v0", author="nobody")
        self.assertEqual((written.total_episodes, written.total_steps), (4, 8))
        dataset = minari.load_dataset("compilers/toy-v0")
        for found, wanted in zip(dataset, lake.iterate_episodes(), strict=True):
            self.assert_same(found, wanted)
            self.assertEqual(set(found.infos["episode_id"]), {wanted.id})
        again = dataset.recover_environment()
        self.addCleanup(again.close)
        self.assertEqual(again.unwrapped.action_space.names, env.action_space.names)
        some = lake.filter_episodes("steps = 3").to_minari("compilers/some-v0")
        self.assertEqual(some.total_episodes, 1)

    def test_a_dataset_of_llvm_names_its_programs(self):
        import minari

        steplake.generate(
            self.path, "benchmark://steplake-v0/h*", episodes=3, episode_length=5, progress=False
        )
        lake = steplake.open(self.path)
        for space in ["Autophase", "IrInstructionCount"]:
            lake.to_minari(f"{space}-v0", observation_space=space)
            dataset = minari.load_dataset(f"{space}-v0")
            wanted = lake.iterate_episodes(observation_space=space)
            for found, one in zip(dataset, wanted, strict=True):
                self.assert_same(found, one)
        env = dataset.recover_environment()
        self.addCleanup(env.close)
        [about] = dataset.storage.get_episode_metadata([found.id])
        again = play(env, found.actions, options=about["options"])
        self.assert_same(found, again, but=["observations"])

    def test_what_is_no_array_is_refused(self):
        env = self.env("toy-v0")
        with steplake.record(self.path, env, observe=["Number"]) as recorded:
            play(recorded, [0])
        with self.assertRaisesRegex(steplake.UsageError, "Number is none"):
            steplake.open(self.path).to_minari("number-v0", observation_space="Number")

    def test_a_dataset_is_whole_or_not_there(self):
        import minari

        env = self.env("toy-v0")
        for rewards in [["Cost"], ["CostNorm"]]:
            with steplake.record(self.path, env, rewards=rewards) as recorded:
                play(recorded, [0])
        with self.assertRaisesRegex(steplake.NotInLake, "without the reward space Cost"):
            steplake.open(self.path).to_minari("half-v0")
        for wrong in ["no-version", "no name-v0", ""]:
            with self.assertRaisesRegex(steplake.UsageError, "no id of a Minari dataset"):
                steplake.open(self.path).to_minari(wrong, reward_space=None)
        self.assertEqual(minari.list_local_datasets(), {})
        self.assertEqual(list(minari.storage.get_dataset_path().iterdir()), [])


class Import(unittest.TestCase):
    def test_a_lake_needs_no_other_package(self):
        heavy = ["numpy", "pyarrow", "gymnasium", "networkx", "minari"]
        code = f"import steplake, sys; print([one for one in {heavy} if one in sys.modules])"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual((found.stdout, found.stderr), ("[]\n", ""))

    def test_a_missing_package_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            lake = record_toy(Path(folder) / "lake", episodes=1)
            with mock.patch.dict(sys.modules, pyarrow=None):
                wanted = r"^reading episodes needs the package pyarrow: `pip install 'steplake\[arrow\]'`"
                with self.assertRaisesRegex(steplake.MissingPackage, wanted):
                    lake.iterate_episodes()
            with mock.patch.dict(sys.modules, minari=None):
                with self.assertRaisesRegex(steplake.MissingPackage, r"'steplake\[minari\]'"):
                    lake.to_minari("some-v0")


if __name__ == "__main__":
    unittest.main()
