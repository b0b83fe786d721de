"""The unmodified client against a server that runs already: spaces, rewards, forks, states, errors."""

import copy
import os
import re
import signal
import threading
import unittest
from pathlib import Path

import compiler_gym  # noqa: F401 (registers the environments)
import gym
import networkx as nx
import numpy as np
from compiler_gym.datasets import Benchmark
from compiler_gym.envs.llvm import make_benchmark
from compiler_gym.errors import BenchmarkInitError, ServiceError
from compiler_gym.service.proto import Benchmark as BenchmarkProto
from compiler_gym.service.proto import File
from endurance import differences, programs
from support import HUFFMAN, PROGRAMS, Server, leave

ACTIONS = ["-mem2reg", "-instcombine", "-simplifycfg", "-gvn", "-dce"]

# By space: the type of its values.
SERVED = {
    "Ir": str,
    "IrSha1": str,
    "Bitcode": np.ndarray,
    "BitcodeFile": str,
    "InstCount": np.ndarray,
    "Autophase": np.ndarray,
    "Programl": nx.MultiDiGraph,
    "ProgramlJson": dict,
    "CpuInfo": dict,
    "IrInstructionCount": int,
    "IrInstructionCountO0": int,
    "IrInstructionCountO3": int,
    "IrInstructionCountOz": int,
    "ObjectTextSizeBytes": int,
    "ObjectTextSizeO0": int,
    "ObjectTextSizeO3": int,
    "ObjectTextSizeOz": int,
    "TextSizeBytes": int,
    "TextSizeO0": int,
    "TextSizeO3": int,
    "TextSizeOz": int,
    "IsBuildable": bool,
    "IsRunnable": bool,
    "Runtime": np.ndarray,
    "Buildtime": np.ndarray,
    "LexedIr": dict,
}
DERIVED = {
    "InstCountDict": dict,
    "InstCountNorm": np.ndarray,
    "InstCountNormDict": dict,
    "AutophaseDict": dict,
    "LexedIrTuple": list,
}
# The client's own code for these fails with a NameError on IR in which a named struct holds a `ptr`.
INST2VEC = {"Inst2vecPreprocessedText": list, "Inst2vecEmbeddingIndices": list, "Inst2vec": np.ndarray}


def flags(env, names):
    return [env.action_space.flags.index(name) for name in names]


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(lambda: cls.assertEqual(cls(), cls.server.stop(), 0))

    def make(self, **arguments):
        env = gym.make("llvm-v0", service=self.server.address, benchmark=HUFFMAN, **arguments)
        self.addCleanup(env.close)
        return env

    def test_the_spaces_are_those_of_the_original(self):
        env = self.make()
        self.assertEqual(list(env.observation.spaces), list(SERVED) + list(INST2VEC) + list(DERIVED))
        self.assertEqual((env.action_space.name, env.action_space.n), ("PassesAll", 124))
        self.assertEqual(env.version, "0.2.5")
        self.assertRegex(env.compiler_version, r"^22\.\d+\.\d+ x86_64-")

    def test_every_observation_space(self):
        env = self.make()
        env.reset()
        for space, kind in {**SERVED, **DERIVED}.items():
            with self.subTest(space):
                value = env.observation[space]
                self.assertIsInstance(value, kind)
                if value is not None and space != "LexedIr":
                    described = env.observation.spaces[space].space
                    if space not in ("Programl", "ProgramlJson", "LexedIrTuple", "InstCountNormDict"):
                        self.assertTrue(described.contains(value), f"{described} lacks {str(value)[:99]}")
        counts = env.observation["InstCountDict"]
        self.assertEqual(counts["TotalInstsCount"], env.observation["IrInstructionCount"])
        # The program is linked, as the command says that the client sends along.
        self.assertGreater(env.observation["TextSizeBytes"], env.observation["ObjectTextSizeBytes"])
        self.assertEqual(env.observation["IrInstructionCount"], env.observation["IrInstructionCountO0"])
        self.assertLess(env.observation["IrInstructionCountOz"], env.observation["IrInstructionCountO0"])
        self.assertGreater(env.observation["CpuInfo"]["cores_count"], 0)
        graph, data = env.observation["Programl"], env.observation["ProgramlJson"]
        self.assertEqual([graph.number_of_nodes(), graph.number_of_edges()], [len(data["nodes"]), len(data["links"])])
        token = env.observation["LexedIrTuple"][0]
        self.assertTrue(token.kind and token.category)

    def test_programs_are_run_as_often_as_wanted(self):
        env = self.make()
        for benchmark in ["cbench-v1/qsort", "cbench-v1/huffman"]:
            with self.subTest(benchmark):
                env.reset(benchmark=benchmark)
                self.assertTrue(env.observation["IsBuildable"] and env.observation["IsRunnable"])
                env.runtime_observation_count = 3
                env.runtime_warmup_runs_count = 1
                times = env.observation["Runtime"]
                self.assertEqual(len(times), 3)
                self.assertGreater(min(times), 0)
                env.step(flags(env, ["-mem2reg", "-simplifycfg"]))
                self.assertEqual(len(env.observation["Runtime"]), 3)
                self.assertEqual(len(env.observation["Buildtime"]), 1)

    def test_inst2vec_where_the_client_can_compute_it(self):
        env = self.make()
        env.reset(benchmark="cbench-v1/crc32")
        for space, kind in INST2VEC.items():
            with self.subTest(space):
                try:
                    self.assertIsInstance(env.observation[space], kind)
                except NameError as error:
                    self.skipTest(f"the client's own code: {error}")

    def test_the_written_bitcode_is_a_program(self):
        env = self.make()
        env.reset()
        path = env.write_bitcode(f"{os.environ['HOME']}/written.bc")
        self.assertEqual(path.read_bytes()[:2], b"BC")
        count = env.observation["IrInstructionCount"]
        env.reset(benchmark=make_benchmark(path))
        self.assertEqual(env.observation["IrInstructionCount"], count)

    def test_every_reward_space(self):
        env = self.make()
        for space in list(env.reward.spaces):
            with self.subTest(space):
                env.reset(reward_space=space)
                total = sum(env.step(action)[1] for action in flags(env, ACTIONS))
                self.assertAlmostEqual(total, env.episode_reward)
                self.assertGreater(total, 0)
        self.assertEqual(len(env.reward.spaces), 12)

    def test_several_actions_at_once_lead_where_single_ones_lead(self):
        env = self.make(reward_space="IrInstructionCount", observation_space="Autophase")
        self.assertEqual(env.reset().shape, (56,))
        for action in flags(env, ACTIONS):
            observation, _, done, info = env.step(action)
            self.assertFalse(done, info)
        single = (env.ir_sha1, env.episode_reward, observation.tolist())
        env.reset()
        observation, reward, done, info = env.multistep(flags(env, ACTIONS))
        self.assertEqual((env.ir_sha1, reward, observation.tolist()), single)
        self.assertFalse(done or info["action_had_no_effect"])
        _, _, _, info = env.multistep(flags(env, ["-dce", "-dce", "-barrier"]))
        self.assertTrue(info["action_had_no_effect"])

    def test_a_fork_is_in_the_same_state_and_on_its_own(self):
        env = self.make(reward_space="IrInstructionCountOz")
        env.reset()
        env.multistep(flags(env, ACTIONS[:2]))
        for fork in (env.fork(), copy.deepcopy(env)):
            self.addCleanup(fork.close)
            self.assertEqual((fork.ir_sha1, fork.episode_reward), (env.ir_sha1, env.episode_reward))
            before = env.ir_sha1
            fork.multistep(flags(env, ACTIONS[2:]))
            self.assertNotEqual(fork.ir_sha1, before)
            self.assertEqual(env.ir_sha1, before)
            self.assertEqual(fork.benchmark, env.benchmark)

    def test_programs_of_the_caller(self):
        env = self.make()
        path = PROGRAMS / "fourier.bc"
        env.reset(benchmark=make_benchmark(path))
        by_file = env.observation["IrInstructionCount"]
        env.reset(benchmark=Benchmark.from_file_contents("benchmark://user-v0/mine", path.read_bytes()))
        self.assertEqual(env.observation["IrInstructionCount"], by_file)
        self.assertEqual(env.benchmark, "benchmark://user-v0/mine")
        # The service knows it by now.
        self.assertEqual(env.reset(observation_space="IrInstructionCount"), by_file)
        # Bitcode of LLVM 10, as the package ships it.
        env.reset(benchmark="cbench-v1/crc32")
        self.assertEqual(env.observation["IrInstructionCount"], 242)
        source = f"{os.environ['HOME']}/mine.c"
        with open(source, "w") as file:
            file.write("int square(int x) { int y = x; return y * x; }")
        env.reset(benchmark=env.make_benchmark(source))
        self.assertIn("square", env.ir)

    def test_what_is_no_program_is_said_as_the_original_says_it(self):
        env = self.make()
        for data in (b"no bitcode", b"BC\xc0\xde and no more", b""):
            uri = f"benchmark://user-v0/{len(data)}"
            with self.assertRaisesRegex(ValueError, f'Failed to parse LLVM bitcode: "{uri}": '):
                env.reset(benchmark=Benchmark.from_file_contents(uri, data))
        empty = Path(os.environ["HOME"], "empty.bc")
        empty.touch()
        scheme = 'Invalid benchmark data URI. Only the file:/// scheme is supported: "invalid_scheme://test"'
        for program, kind, text in [
            (None, ValueError, "No program set"),
            (File(uri="invalid_scheme://test"), ValueError, re.escape(scheme)),
            (File(uri="file:///no/such.bc"), FileNotFoundError, 'File not found: "/no/such.bc"'),
            (File(uri=f"file://{empty}"), BenchmarkInitError, f'File is empty: "{empty}"'),
        ]:
            with self.assertRaisesRegex(kind, text):
                env.reset(benchmark=Benchmark(BenchmarkProto(uri="benchmark://new", program=program)))
        env.reset(benchmark=HUFFMAN)
        for wrong in (124, -1):
            with self.assertRaisesRegex(ValueError, r"Out-of-range.*not in range \[0, 124\)"):
                env.step(wrong)
        # The session is as it was.
        self.assertEqual(env.observation["IrInstructionCount"], env.observation["IrInstructionCountO0"])

    def test_a_build_command_that_fails_is_said_at_reset(self):
        env = self.make()
        source = Path(os.environ["HOME"], "program.c")
        source.write_text("int main() { return 0; }")
        benchmark = env.make_benchmark(source)
        build = benchmark.proto.dynamic_config.build_cmd
        build.argument.extend(["$CC", "$IN", "-invalid-cc-argument"])
        build.timeout_seconds = 10
        with self.assertRaisesRegex(BenchmarkInitError, "clang: error: unknown argument: '-invalid-cc-argument'"):
            env.reset(benchmark=benchmark)

    def test_a_run_that_fails_ends_the_episode(self):
        env = self.make()
        source = Path(os.environ["HOME"], "failing.c")
        source.write_text("int main() { __builtin_abort(); }")
        benchmark = env.make_benchmark(source)
        config = benchmark.proto.dynamic_config
        config.build_cmd.argument.extend(["$CC", "$IN"])
        config.build_cmd.outfile.append("a.out")
        config.run_cmd.argument.append("./a.out")
        config.build_cmd.timeout_seconds = config.run_cmd.timeout_seconds = 10
        env.reset(benchmark=benchmark)
        _, _, done, info = env.step(0, observation_spaces=["Runtime"])
        self.assertTrue(done)
        self.assertIn("signal 6", info["error_details"])
        env.reset()
        with self.assertRaisesRegex(ServiceError, "signal 6"):
            env.observation["Runtime"]

    def test_a_state_is_validated(self):
        env = self.make(reward_space="IrInstructionCountOz")
        env.reset()
        env.multistep(flags(env, ACTIONS))
        self.assertIn("-mem2reg -instcombine", env.commandline())
        result = env.validate(env.state)
        self.assertTrue(result.okay(), result)
        self.assertTrue(result.reward_validated)

    def test_parameters(self):
        env = self.make()
        env.reset()
        self.assertEqual([env.runtime_observation_count, env.runtime_warmup_runs_count], [1, 0])
        env.runtime_observation_count = 3
        self.assertEqual(env.send_param("llvm.get_runtimes_per_observation_count", ""), "3")
        self.assertEqual(env.send_param("service.benchmark_cache.get_max_size_in_bytes", ""), str(256 << 20))
        self.assertGreater(int(env.send_param("service.benchmark_cache.get_size_in_bytes", "")), 0)
        for key, value, kind, text in [
            ("llvm.set_runtimes_per_observation_count", "0", ValueError, "must be >= 1. Received: 0"),
            ("llvm.set_buildtimes_per_observation_count", "x", ServiceError, "stoi"),
            ("llvm.apply_baseline_optimizations", "-O9", ValueError, "Invalid value"),
            ("llvm.nothing", "", ValueError, "Unknown parameter: llvm.nothing"),
        ]:
            with self.assertRaisesRegex(kind, text):
                env.send_param(key, value)

    def test_pipelines_of_the_compiler(self):
        env = self.make()
        env.reset()
        costs = [f"{cost}{scale}" for cost in ("IrInstructionCount", "ObjectTextSize") for scale in ("O0", "O3", "Oz")]
        known = {cost: env.observation[cost] for cost in costs}
        self.assertEqual(env.send_param("llvm.apply_baseline_optimizations", "-Oz"), "1")
        self.assertEqual(env.observation["IrInstructionCount"], known["IrInstructionCountOz"])
        self.assertEqual(env.observation["ObjectTextSizeBytes"], known["ObjectTextSizeOz"])
        self.assertEqual({cost: env.observation[cost] for cost in costs}, known)
        # Forks and steps go on from there.
        with env.fork() as fork:
            self.assertEqual(fork.ir_sha1, env.ir_sha1)
            self.assertFalse(fork.step(flags(env, ["-reg2mem"]))[2])

    def test_threads_step_at_the_same_time(self):
        hashes = []

        def play():
            with gym.make("llvm-v0", service=self.server.address, benchmark=HUFFMAN) as env:
                env.reset()
                env.multistep(flags(env, ACTIONS))
                hashes.append(env.ir_sha1)

        threads = [threading.Thread(target=play) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(hashes), len(set(hashes))), (8, 1))

    def test_a_killed_compiler_comes_back_and_others_do_not_notice(self):
        one, other = self.make(), self.make()
        for env in (one, other):
            env.reset()
            env.step(flags(env, ACTIONS)[0])
        before = [one.ir_sha1, other.ir_sha1]
        for worker in self.server.workers():
            os.kill(worker, signal.SIGKILL)
        self.assertEqual([one.ir_sha1, other.ir_sha1], before)
        for env in (one, other):
            self.assertFalse(env.step(flags(env, ACTIONS)[1])[2])


class Many(unittest.TestCase):
    def test_idle_sessions_keep_few_compilers(self):
        server = Server("--live-sessions", 2)
        try:
            envs = [gym.make("llvm-v0", service=server.address, benchmark=HUFFMAN) for _ in range(8)]
            for env in envs:
                env.reset()
                env.multistep(flags(env, ACTIONS))
            self.assertEqual(len({env.ir_sha1 for env in envs}), 1)
            self.assertLessEqual(len(server.workers()), 4)
            for env in envs:
                env.close()
        finally:
            self.assertEqual(server.stop(), 0)

    def test_thirty_two_environments_compute_at_once(self):
        server = Server("--live-sessions", 4)
        answers = []

        def play():
            with gym.make("llvm-v0", service=server.address, benchmark=HUFFMAN) as env:
                env.reset()
                for action in flags(env, ACTIONS):
                    env.step(action)
                answers.append((env.ir_sha1, env.observation["Autophase"].tobytes()))

        try:
            threads = [threading.Thread(target=play) for _ in range(32)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual((len(answers), len(set(answers))), (32, 1))
        finally:
            self.assertEqual(server.stop(), 0)

    def test_two_servers_give_the_same_observations(self):
        servers = [Server(), Server()]
        try:
            compared, _, found = differences(*servers, programs(3), sequences=1, length=20)
            self.assertEqual(found, [])
            self.assertGreater(compared, 23)
        finally:
            for server in servers:
                server.stop()

    def test_a_server_stops_in_the_middle_of_sessions(self):
        server = Server()
        env = gym.make("llvm-v0", service=server.address, benchmark=HUFFMAN)
        env.reset()
        self.assertEqual(server.stop(), 0)
        leave(env)


if __name__ == "__main__":
    unittest.main()
