"""The wrappers: on the toy, which is fast, and on LLVM where the compiler matters."""

import tempfile
import unittest
import warnings

import gymnasium
import numpy as np
import steplake
from gymnasium.utils.env_checker import check_env
from steplake import wrappers
from steplake.errors import UsageError

TOYS = [f"generator://toy-v0/{seed}" for seed in range(4)]
HUFFMAN = "benchmark://steplake-v0/huffman"
PASSES = ["mem2reg", "instcombine", "simplifycfg", "gvn", "dce"]


class Wrapped(unittest.TestCase):
    """Makes environments, and closes them."""

    def closed(self, env):
        self.addCleanup(env.close)
        return env

    def toy(self, **options):
        return self.closed(steplake.make("toy-v0", benchmark=TOYS[1], **options))

    def llvm(self, **options):
        return self.closed(steplake.make("llvm-v0", benchmark=HUFFMAN, **options))

    def fork(self, env):
        return self.closed(env.fork())

    def both(self):
        """Yield each environment with three of its actions."""
        yield self.toy(), [0, 1, 2]
        llvm = self.llvm()
        yield llvm, [llvm.action_space[name] for name in PASSES[:3]]

    def begun(self, env, *actions):
        env.reset()
        env.multistep(actions)
        return env

    def draws(self, env, number, **options):
        begun = [env.reset(**options)] + [env.reset() for _ in range(number - 1)]
        return [info["benchmark"] for _, info in begun]

    def refused(self, call, *arguments):
        self.assertRaises(UsageError, call, *arguments)

    def assert_same(self, first, second):
        np.testing.assert_equal(first[0], second[0])
        self.assertEqual(first[1:], second[1:])


class Doubled(wrappers.RewardWrapper):
    def convert_reward(self, reward):
        return 2 * reward


class Reversed(wrappers.ActionWrapper):
    def action(self, action):
        return self.action_space.n - 1 - int(action)

    reverse_action = action


class Negated(wrappers.ObservationWrapper):
    def convert_observation(self, observation):
        return -observation


class CompilerEnvWrapperTest(Wrapped):
    def test_does_what_the_environment_does(self):
        for env, actions in self.both():
            self.begun(env)
            wrapped = wrappers.CompilerEnvWrapper(wrappers.CompilerEnvWrapper(self.fork(env)))
            self.assert_same(env.reset(seed=3), wrapped.reset(seed=3))
            self.assertEqual(wrapped.np_random_seed, 3)
            self.assert_same(env.step(actions[0]), wrapped.step(actions[0]))
            self.assert_same(env.multistep(actions), wrapped.multistep(actions))
            for name in (
                "state actions episode_reward reward_space reward_space_name benchmark compiler "
                "observation_space observation_space_name action_space datasets render_mode"
            ).split():
                self.assertEqual(getattr(env, name), getattr(wrapped, name), name)
            self.assertEqual(dict(env.reward), dict(wrapped.reward))
            self.assertEqual(list(env.observation), list(wrapped.observation))
            self.assertEqual(env.commandline(), wrapped.commandline())
            again = [wrapped.validate(of, semantics=False) for of in (None, env.state)]
            self.assertTrue(all(one.okay() for one in again))
            looked_at, rewarded = list(env.observation)[:2], list(env.reward)
            for call, given in ((wrapped.step, actions[0]), (wrapped.multistep, actions)):
                seen, reward, *_ = call(given, observation_spaces=looked_at, reward_spaces=rewarded)
                self.assertEqual((len(seen), reward), (2, list(wrapped.reward.values())))
            self.begun(wrapped).apply(env.state)
            self.assertEqual(wrapped.state, env.state)

    def test_sets_spaces_by_name(self):
        env = wrappers.CompilerEnvWrapper(wrappers.CompilerEnvWrapper(self.llvm()))
        env.observation_space, env.reward_space = "InstCount", "IrInstructionCount"
        self.assertEqual(env.observation_space.shape, (70,))
        self.assertEqual(env.unwrapped.observation_space_name, "InstCount")
        self.assertEqual(env.unwrapped.reward_space_name, "IrInstructionCount")
        self.assertIn(env.reset()[0], env.observation_space)
        env.observation_space = None
        self.assertEqual(env.step(0)[0].shape, (0,))
        self.refused(setattr, env, "observation_space", "no such space")
        env.observation_space = own = gymnasium.spaces.Discrete(3)
        self.assertEqual([env.observation_space, env.env.observation_space.shape], [own, (0,)])
        env.observation_space = "InstCount"
        self.assertIs(env.observation_space, env.unwrapped.observation_space)

    def test_forks_every_wrapper(self):
        for inside, actions in self.both():
            env = wrappers.ConstrainedCommandline(inside, inside.action_space.names)
            env = self.begun(wrappers.TimeLimit(Doubled(env), 3), actions[0])
            env.action_space.seed(5)
            fork = self.fork(env)
            self.assertEqual([type(fork), type(fork.env)], [wrappers.TimeLimit, Doubled])
            self.assertEqual([fork.state, fork.episode_reward], [env.state, env.episode_reward])
            # Each draws actions by itself.
            draws = [env.action_space.sample() for _ in range(20)]
            self.assertEqual([fork.action_space.sample() for _ in range(20)], draws)
            self.assert_same(fork.multistep(actions[1:]), env.multistep(actions[1:]))
            fork.step(actions[0])
            self.assertEqual([len(fork.actions), len(env.actions)], [4, 3])
            self.assertIs(fork.observation._env, fork.unwrapped)

    def test_begins_renders_and_closes(self):
        with wrappers.CompilerEnvWrapper(self.toy(render_mode="ansi")) as env:
            env.benchmark = TOYS[2]
            self.assertEqual(self.draws(env, 1), [TOYS[2]])
            env.reset(options={"benchmark": env.make_benchmark(TOYS[3])})
            self.assertEqual(env.benchmark.uri, TOYS[3])
            self.assertEqual(env.render(), env.unwrapped.render())
        self.refused(env.reset)

    def test_within_gymnasium(self):
        made = self.closed(gymnasium.make("steplake:toy-v0"))
        self.refused(wrappers.TimeLimit, made, 3)
        env = wrappers.TimeLimit(Negated(Reversed(Doubled(made.unwrapped))), 3)
        with warnings.catch_warnings():
            # The checker would rather have observations between -1 and 1.
            warnings.simplefilter("ignore")
            check_env(env, skip_render_check=True, skip_close_check=True)
        vector = gymnasium.vector.SyncVectorEnv([lambda: wrappers.TimeLimit(self.toy(), 2)] * 2)
        self.assertEqual(vector.reset()[0].shape, (2, 16))
        vector.step([0, 1])
        self.assertEqual(vector.step([0, 1])[3].tolist(), [True, True])


class TimeLimitTest(Wrapped):
    def test_truncates(self):
        for inside, actions in self.both():
            env = wrappers.TimeLimit(inside, max_episode_steps=3)
            for _ in range(2):
                env.reset()
                ends = [env.step(action)[2:4] for action in actions]
                self.assertEqual(ends, [(False, False)] * 2 + [(False, True)])
            env.reset()
            self.assertFalse(env.multistep(actions[:2])[3])
            fork = self.fork(env)
            self.assertTrue(env.multistep(actions[:2])[3])
            self.assertEqual(len(env.actions), 4)
            env.apply(fork.state)
            self.assertTrue(env.step(actions[2])[3] and fork.step(actions[2])[3])
        self.refused(wrappers.TimeLimit, self.toy(), 0)


class IterateOverBenchmarksTest(Wrapped):
    def test_ends(self):
        toy, llvm = self.toy(), self.llvm()
        few = llvm.datasets["benchmark://steplake-v0"].benchmark_uris("h*")
        for inside, given, uris in (
            (toy, [TOYS[2], toy.make_benchmark(TOYS[3])], TOYS[2:]),
            (toy, toy.datasets["generator://toy-v0"].benchmarks("2..3"), TOYS[2:]),
            (llvm, few, ["benchmark://steplake-v0/heat_stencil", HUFFMAN]),
        ):
            env = wrappers.TimeLimit(wrappers.IterateOverBenchmarks(inside, given), 9)
            self.assertEqual(self.draws(env, 2, seed=1), uris)
            for kind in (wrappers.NoMoreBenchmarks, StopIteration, UsageError):
                self.assertRaises(kind, env.reset)

    def test_forks(self):
        env = wrappers.IterateOverBenchmarks(self.toy(), iter(TOYS))
        env.reset()
        fork = self.fork(env)
        again = self.fork(fork)
        for one in (fork, env, again):
            self.assertEqual(self.draws(one, 3), TOYS[1:])
        env = wrappers.IterateOverBenchmarks(self.toy(), iter(TOYS), fork_shares_iterator=True)
        env.reset()
        fork = self.fork(env)
        self.assertEqual(self.draws(env, 1) + self.draws(fork, 2), TOYS[1:])

    def test_wrong_uses(self):
        env = wrappers.IterateOverBenchmarks(self.toy(), TOYS)
        self.refused(lambda: env.reset(options={"benchmark": TOYS[3]}))
        self.assertEqual(self.draws(env, 1), TOYS[:1])
        for kind in ("IterateOver", "CycleOver", "RandomOrder"):
            self.refused(getattr(wrappers, f"{kind}Benchmarks"), self.toy(), TOYS[0])


class CycleOverBenchmarksTest(Wrapped):
    def test_begins_again(self):
        env = wrappers.CycleOverBenchmarks(self.toy(), iter(TOYS[:2]))
        self.assertEqual(self.draws(env, 3), [TOYS[0], TOYS[1], TOYS[0]])
        fork = self.fork(env)
        self.assertEqual(self.draws(env, 2), self.draws(fork, 2))
        self.refused(wrappers.CycleOverBenchmarks(self.toy(), []).reset)


class CycleOverBenchmarksIteratorTest(Wrapped):
    def test_makes_the_iterator_anew(self):
        rounds = iter([TOYS[:2], TOYS[2:], TOYS[:2]])
        env = wrappers.CycleOverBenchmarksIterator(self.toy(), lambda: next(rounds))
        self.assertEqual(self.draws(env, 5), [*TOYS, TOYS[0]])
        self.assertEqual(self.draws(self.fork(env), 1), TOYS[1:2])
        self.refused(wrappers.CycleOverBenchmarksIterator(self.toy(), list).reset)


class RandomOrderBenchmarksTest(Wrapped):
    def test_seeded(self):
        env = wrappers.RandomOrderBenchmarks(self.toy(), iter(TOYS))
        draws = self.draws(env, 12, seed=7)
        self.assertEqual(set(draws), set(TOYS))
        self.assertEqual(self.draws(env, 12, seed=7), draws)
        self.assertNotEqual(self.draws(env, 12, seed=8), draws)
        fork = self.fork(env)
        self.assertEqual(self.draws(env, 12), self.draws(fork, 12))
        for rng in (7, np.random.default_rng(7)):
            env = wrappers.RandomOrderBenchmarks(self.toy(), TOYS, rng)
            self.assertEqual(self.draws(env, 12), draws)
        self.refused(wrappers.RandomOrderBenchmarks, self.toy(), [])


class ConstrainedCommandlineTest(Wrapped):
    def test_renumbers(self):
        inside = self.llvm()
        env = wrappers.ConstrainedCommandline(inside, PASSES)
        self.assertEqual((env.action_space.n, env.action_space["gvn"]), (5, 3))
        self.begun(env, 0, 3).step(np.int64(1))
        self.assertEqual(env.actions, [0, 3, 1])
        for one in (env, inside):
            self.assertEqual(one.action_space.to_string(one.actions), "mem2reg gvn instcombine")
        pipelines = [env.action_space.pipelines[action] for action in env.actions]
        self.assertIn(",".join(pipelines), env.commandline())
        env.apply(env.state)
        self.assertEqual(env.actions, [0, 3, 1])
        self.assertTrue(env.validate(semantics=False).okay())

    def test_nests_and_forks(self):
        env = wrappers.ConstrainedCommandline(self.toy(), ["halve", "invert", "double"])
        env = wrappers.ConstrainedCommandline(env, ["double", "halve"], name="two")
        fork = self.fork(self.begun(env, 0, 1, 0))
        self.assertEqual(fork.action_space.name, "two")
        actions = [fork.actions, fork.env.actions, fork.unwrapped.actions]
        self.assertEqual(actions, [[0, 1, 0], [2, 0, 2], [1, 2, 1]])

    def test_wrong_uses(self):
        for flags in ([], ["no-such-pass"], ["halve", "halve"]):
            self.refused(wrappers.ConstrainedCommandline, self.toy(), flags)
        env = self.begun(wrappers.ConstrainedCommandline(self.toy(), ["halve", "invert"]))
        self.refused(env.step, -1)
        self.refused(env.step, 2)
        env.unwrapped.step(0)
        self.refused(lambda: env.actions)


class CommandlineWithTerminalActionTest(Wrapped):
    def test_ends_the_episode(self):
        for inside, actions in self.both():
            env = wrappers.CommandlineWithTerminalAction(inside)
            last = inside.action_space.n
            space = env.action_space
            self.assertEqual(space["end-of-episode"], last)
            self.assertEqual({space.n, len(space.pipelines), len(space.flags)}, {last + 1})
            env.reset()
            before, _, terminated, _, info = env.step(actions[0])
            self.assertFalse(terminated or "terminal_action" in info)
            observation, reward, terminated, truncated, info = env.step(last)
            self.assertEqual((terminated, truncated, reward), (True, False, 0))
            self.assertTrue(info["terminal_action"])
            np.testing.assert_equal(observation, before)
            self.assertTrue(env.multistep([actions[1], last, actions[2]])[2])
            self.assertEqual(env.actions, actions[:2])

    def test_with_few_actions(self):
        env = wrappers.ConstrainedCommandline(self.toy(), ["halve", "double"])
        env = self.begun(wrappers.CommandlineWithTerminalAction(env, terminal="stop"))
        fork = self.fork(env)
        self.assertTrue(fork.multistep([1, 0, fork.action_space["stop"]])[2])
        self.assertEqual([fork.actions, env.actions], [[1, 0], []])
        self.refused(wrappers.CommandlineWithTerminalAction, env, "stop")


class ForkOnStepTest(Wrapped):
    def test_undoes_steps(self):
        for inside, actions in self.both():
            # What the wrappers inside keep is undone too.
            env = self.closed(wrappers.ForkOnStep(Doubled(inside)))
            env.reset()
            seen = []
            for call in ([actions[0]], actions[1:], [actions[0]]):
                look = env.observation[env.observation_space_name]
                seen.append((look, env.state, env.episode_reward))
                env.multistep(call)
            while env.stack:
                self.assertIs(env.undo(), env.env)
                look = env.observation[env.observation_space_name]
                self.assert_same(seen.pop(), (look, env.state, env.episode_reward))
            env.undo()
            self.assertEqual([env.actions, seen], [[], []])
            self.assertFalse(env.step(actions[0])[2])

    def test_reset_failure_and_fork(self):
        env = self.closed(wrappers.ForkOnStep(self.toy()))
        self.begun(env, 0, 1)
        self.refused(env.step, 1000)
        self.assertEqual([len(env.stack), env.actions], [1, [0, 1]])
        fork = self.fork(env)
        fork.undo()
        self.assertEqual([fork.actions, env.actions], [[], [0, 1]])
        env.step(2)
        env.undo()
        self.assertEqual(env.actions, [0, 1])
        self.assertEqual(self.draws(env, 1, options={"benchmark": TOYS[2]}), [TOYS[2]])
        self.assertEqual(env.stack, [])


class CounterTest(Wrapped):
    def test_counts(self):
        env = wrappers.Counter(self.toy(render_mode="ansi"))
        self.assertEqual(set(env.counters.values()), {0})
        self.begun(env, 0, 1, 2)
        env.step(0)
        env.step(1, reward_spaces=["Cost"])
        env.render()
        env.validate()
        env.apply(env.state)
        fork = self.fork(env)
        fork.step(0)
        env.close()
        self.assertEqual((env.counters["step"], sorted(env.counters.values())), (2, [1] * 7 + [2]))
        self.assertEqual(fork.counters, {**env.counters, "close": 0, "step": 3})


class ConcatActionsHistogramTest(Wrapped):
    def test_counts_actions(self):
        for inside, actions in self.both():
            env = wrappers.ConcatActionsHistogram(inside)
            features, number = inside.observation_space.shape[0], inside.action_space.n
            space = env.observation_space
            self.assertEqual((space.shape, space.dtype), ((features + number,), np.int32))
            for _ in range(2):
                observation, _ = env.reset()
                self.assertIn(observation, space)
                self.assertEqual(observation[features:].sum(), 0)
                env.multistep([actions[0], actions[1], actions[0]])
            fork, state = self.fork(env), env.state
            observation = env.step(actions[2])[0]
            self.assertIn(observation, space)
            counts = np.bincount([actions[0], *actions], minlength=number)
            plain = env.observation[env.observation_space_name]
            np.testing.assert_equal(observation, np.concatenate((plain, counts)))
            env.apply(state)
            for one in (env, fork):
                np.testing.assert_equal(one.step(actions[2])[0], observation)

    def test_follows_the_observation_space(self):
        env = wrappers.ConcatActionsHistogram(self.llvm())
        env.observation_space = "InstCount"
        self.assertEqual(env.observation_space.shape, (70 + env.action_space.n,))
        self.assertIs(env.observation_space, env.observation_space)
        self.assertIn(env.reset()[0], env.observation_space)
        self.refused(setattr, env, "observation_space", "Ir")
        self.assertEqual(env.observation_space_name, "InstCount")
        self.refused(wrappers.ConcatActionsHistogram, self.toy(observation_space="Cost"))
        self.refused(wrappers.ConcatActionsHistogram, self.toy(), -1)

    def test_normalized_around_other_wrappers(self):
        inside = wrappers.ConstrainedCommandline(self.llvm(), PASSES)
        few = wrappers.AutophaseNormalizedFeatures(inside)
        for one, kind in ((inside, np.float64), (few, np.float32)):
            one.observation_space = "Autophase"
            env = self.begun(wrappers.ConcatActionsHistogram(one, norm_to_episode_len=2))
            space = env.observation_space
            self.assertEqual((space.shape, space.dtype, space.high[-1]), ((56 + 5,), kind, 1))
            observation = env.multistep([4, 1])[0]
            self.assertIn(observation, space)
            self.assertEqual(observation[56:].tolist(), [0, 0.5, 0, 0, 0.5])
            # An episode that is longer.
            self.assertIn(env.multistep([4, 4])[0], space)


class AutophaseNormalizedFeaturesTest(Wrapped):
    def test_divides(self):
        inside = self.llvm(observation_space="InstCount")
        features = inside._observations["Autophase"].features
        self.assertEqual((len(features), features.index("TotalInsts")), (56, 51))
        env = wrappers.AutophaseNormalizedFeatures(inside)
        self.assertEqual(env.observation_space, gymnasium.spaces.Box(0, 1, (56,), np.float32))
        seen = [env.reset()[0], env.step(env.action_space["mem2reg"])[0]]
        seen.append(env.multistep([env.action_space["gvn"], env.action_space["dce"]])[0])
        fork = self.fork(env)
        self.assertEqual(fork.observation_space, env.observation_space)
        seen.append(fork.multistep([])[0])
        for observation in seen:
            self.assertIn(observation, env.observation_space)
            self.assertEqual((observation.dtype, observation[51]), (np.float32, 1))
        plain = env.observation["Autophase"]
        for observation in seen[2:]:
            np.testing.assert_allclose(observation, np.minimum(plain / plain[51], 1), rtol=1e-6)
        empty = env.convert_observation(np.zeros(56, np.int32))
        self.assertEqual((empty.dtype, empty.sum()), (np.float32, 0))

    def test_needs_autophase(self):
        env = wrappers.AutophaseNormalizedFeatures(self.llvm())
        self.refused(setattr, env, "observation_space", "InstCount")
        self.assertIn(env.reset()[0], env.observation_space)
        for other in (self.toy(), wrappers.ConcatActionsHistogram(self.llvm())):
            self.refused(wrappers.AutophaseNormalizedFeatures, other)


class ObservationWrapperTest(Wrapped):
    def test_converts(self):
        for inside, actions in self.both():
            env = Negated(inside)
            name = env.observation_space_name
            np.testing.assert_equal(env.reset()[0], -env.observation[name])
            np.testing.assert_equal(env.step(actions[0])[0], -env.observation[name])
            np.testing.assert_equal(env.multistep(actions)[0], -env.observation[name])
            (plain,), *_ = env.multistep(actions, observation_spaces=[name])
            np.testing.assert_equal(plain, env.observation[name])
            env.observation_space = own = gymnasium.spaces.Discrete(3)
            fork = self.fork(env)
            np.testing.assert_equal(fork.multistep([])[0], -plain)
            self.assertEqual([env.observation_space, fork.observation_space], [own, own])
        self.assertRaises(NotImplementedError, wrappers.ObservationWrapper(self.toy()).reset)


class ActionWrapperTest(Wrapped):
    def test_converts(self):
        for inside, actions in self.both():
            env = self.begun(Reversed(Reversed(Reversed(inside))), *actions[:2])
            env.step(actions[2])
            self.assertEqual([env.actions, self.fork(env).actions], [actions, actions])
            self.assertEqual(inside.actions, [inside.action_space.n - 1 - one for one in actions])
        bare = wrappers.ActionWrapper(self.toy())
        self.assertRaises(NotImplementedError, self.begun, bare, 0)


class RewardWrapperTest(Wrapped):
    def test_converts(self):
        for inside, actions in self.both():
            env = self.begun(Doubled(Doubled(inside)))
            plain = self.fork(inside)
            for call in ([actions[0]], actions[1:]):
                self.assertEqual(env.multistep(call)[1], 4 * plain.multistep(call)[1])
            self.assertEqual(env.step(actions[0])[1], 4 * plain.step(actions[0])[1])
            self.assertAlmostEqual(env.episode_reward, 4 * plain.episode_reward)
            # The state stays the environment's own, so that it can be validated.
            self.assertEqual(env.state, plain.state)
            self.assertTrue(env.validate(semantics=False).okay())
            env.reset()
            self.assertEqual(env.episode_reward, 0)
        bare = wrappers.RewardWrapper(self.toy())
        self.assertRaises(NotImplementedError, self.begun, bare, 0)

    def test_names_fork_and_apply(self):
        env = self.begun(Doubled(Doubled(self.toy())))
        _, (cost,), *_ = env.multistep([0, 1], reward_spaces=["Cost"])
        self.assertNotEqual(cost, 0)
        self.assertEqual([env.reward["Cost"], env.episode_reward], [cost, 4 * cost])
        fork, state = self.fork(env), env.state
        fork.step(0)
        self.assertEqual(env.episode_reward, 4 * cost)
        env.step(2)
        env.apply(state)
        self.assertEqual((env.episode_reward, env.state), (4 * cost, state))


class SynchronousSqliteLoggerTest(Wrapped):
    def test_records(self):
        with tempfile.TemporaryDirectory() as folder:
            inside = wrappers.TimeLimit(self.toy(), 5)
            with self.assertWarnsRegex(DeprecationWarning, r"steplake\.record\(lake, env\)"):
                env = wrappers.SynchronousSqliteLogger(inside, f"{folder}/lake")
            self.begun(env, 0, 1, 2)
            with env.fork() as fork:
                fork.step(3)
            env.step(4)
            env.close()
            env.close()
            lake = self.closed(steplake.open(f"{folder}/lake"))
            rows = lake.sql("SELECT action FROM steps WHERE action IS NOT NULL").fetchall()
            self.assertEqual(sorted(rows), [(0,), (1,), (2,), (3,), (4,)])
