"""The first lines of libraries for learning, on the environments as they are registered.

`TORCH=yes scripts/test-python.sh` installs stable-baselines3 and TorchRL for these tests; what they
look at is tested without them, too.
"""

import unittest
import warnings
from unittest import mock

import gymnasium
import numpy as np
import steplake
from gymnasium.utils.env_checker import check_env

try:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_checker import check_env as sb3_check_env
    from stable_baselines3.common.env_util import make_vec_env
except ImportError:
    make_vec_env = None
try:
    from torchrl.envs import GymEnv
except ImportError:
    GymEnv = None

EPISODE_LENGTH = 50
TOY, LLVM = "steplake:toy-v0", "steplake:llvm-v0"


def endless(env):
    """The length of an episode of an action that the toy environment never ends with."""
    env.reset()
    action = np.zeros(env.action_space.shape, int)
    for steps in range(1, 10 * EPISODE_LENGTH):
        *_, terminated, truncated, _ = env.step(action)
        if np.any(terminated) or np.any(truncated):
            return steps
    return None


class Gymnasium(unittest.TestCase):
    def test_a_render_mode_that_is_not_there_is_a_type_error_before_anything_starts(self):
        # stable-baselines3 asks for this mode, and goes on without one after a `TypeError`.
        with mock.patch("steplake.env.open_environment", side_effect=AssertionError):
            with warnings.catch_warnings(action="ignore"):
                with self.assertRaisesRegex(TypeError, "there is no render mode 'rgb_array'"):
                    gymnasium.make(LLVM, render_mode="rgb_array")
            for make in [steplake.make, steplake.env.CompilerEnv]:
                with self.assertRaises(steplake.NoSuchRenderMode) as caught:
                    make("llvm-v0", render_mode="human")
                self.assertIsInstance(caught.exception, (TypeError, steplake.UsageError))
        with self.assertRaises(steplake.NoSuchRenderMode):
            steplake.make("replay-v0", lake="no-such-lake", render_mode="rgb_array")

    def test_registered_episodes_end(self):
        for make in [
            lambda **options: gymnasium.make(TOY, **options),
            lambda **options: gymnasium.make_vec(TOY, num_envs=2, **options),
            lambda **options: gymnasium.make_vec(
                TOY, num_envs=2, vectorization_mode="sync", **options
            ),
        ]:
            for options, wanted in [
                ({}, EPISODE_LENGTH),
                ({"max_episode_steps": 7}, 7),
                ({"max_episode_steps": -1}, None),
            ]:
                env = make(**options)
                self.assertEqual(endless(env), wanted, (env, options))
                env.close()
        for name in ["llvm-v0", "gcc-v0", "loops-v0", "replay-v0"]:
            self.assertEqual(gymnasium.spec(name).max_episode_steps, EPISODE_LENGTH)
        # What is not registered ends where its user says.
        with steplake.make("toy-v0") as env:
            self.assertIsNone(endless(env))

    def test_the_reward_space_is_a_space(self):
        env = gymnasium.make(LLVM)
        self.addCleanup(env.close)
        space = env.get_wrapper_attr("reward_space")
        self.assertIsInstance(space, gymnasium.spaces.Box)
        env.reset()
        reward = env.step(0)[1]
        self.assertIn(np.asarray(reward, space.dtype), space)
        own = env.unwrapped
        self.assertEqual(own.reward_space_name, "IrInstructionCountOz")
        own.reward_space = "IrInstructionCount"
        self.assertEqual((own.reward_space_name, space.name), ("IrInstructionCount", "IrInstructionCountOz"))
        self.assertNotEqual(own.reward_space, space)
        own.reward_space = space
        self.assertEqual(own.reward_space_name, "IrInstructionCountOz")
        own.reward_space = None
        self.assertEqual((own.reward_space, own.reward_space_name), (None, None))
        # Older programs take the name.
        with self.assertWarnsRegex(DeprecationWarning, "`reward_space_name` is its name"):
            self.assertTrue(space == "IrInstructionCountOz")
        with self.assertWarns(DeprecationWarning):
            self.assertEqual(own.reward[space], reward)

    def test_the_checker_has_nothing_to_say(self):
        for name in [TOY, LLVM]:
            with warnings.catch_warnings(action="error"):
                env = gymnasium.make(name)
                check_env(env.unwrapped, skip_render_check=True)
                env.close()

    def test_environments_say_what_they_are(self):
        env = gymnasium.make(TOY, benchmark="generator://toy-v0/1")
        self.addCleanup(env.close)
        own = env.unwrapped
        self.assertRegex(
            repr(own), r"^CompilerEnv\('toy-v0', benchmark='generator://toy-v0/1', .*actions=\[\]\)$"
        )
        env.reset()
        env.step(3)
        self.assertTrue(repr(own).endswith("actions=[3])"), repr(own))
        self.assertEqual(str(own), "<CompilerEnv<toy-v0>>")
        vector = gymnasium.make_vec(TOY, num_envs=2)
        self.addCleanup(vector.close)
        self.assertRegex(repr(vector), r"^CompilerVectorEnv\('toy-v0', num_envs=2, .*\)$")
        with steplake.make("toy-v0") as alone:
            self.assertEqual(str(alone), repr(alone))
        self.assertRegex(repr(own.observation), r"^ObservationView\(.*Bits.*\)$")
        self.assertRegex(repr(own.reward), r"^RewardView\(\{'Cost': .*\}\)$")


@unittest.skipIf(make_vec_env is None, "stable-baselines3 is not installed")
class StableBaselines3(unittest.TestCase):
    def test_its_first_lines(self):
        with warnings.catch_warnings(action="ignore"):
            # Gymnasium warns of the render mode that stable-baselines3 tries.
            vector = make_vec_env(LLVM, n_envs=2)
            self.addCleanup(vector.close)
            model = PPO("MlpPolicy", vector, n_steps=64, batch_size=64, n_epochs=1)
            model.learn(128)
        # Episodes have ended: their lengths are known.
        self.assertGreater(len(model.ep_info_buffer), 0)
        self.assertLessEqual({one["l"] for one in model.ep_info_buffer}, {EPISODE_LENGTH})

    def test_its_checker(self):
        with warnings.catch_warnings(action="ignore"), steplake.make("toy-v0") as env:
            sb3_check_env(env)


@unittest.skipIf(GymEnv is None, "TorchRL is not installed")
class TorchRl(unittest.TestCase):
    def test_its_first_lines(self):
        env = GymEnv(LLVM)
        self.addCleanup(env.close)
        played = env.rollout(EPISODE_LENGTH + 10)
        self.assertEqual(len(played), EPISODE_LENGTH)
        self.assertTrue(played[-1]["next", "truncated"].item())
        self.assertEqual(played["next", "reward"].shape[0], EPISODE_LENGTH)
        from torchrl.envs.utils import check_env_specs

        check_env_specs(env)


if __name__ == "__main__":
    unittest.main()
