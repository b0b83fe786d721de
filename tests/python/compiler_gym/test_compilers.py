"""The unmodified client against services of other compilers: GCC's flags and loop nests."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import compiler_gym  # noqa: F401 (registers the environments)
import gym
from compiler_gym.datasets import Benchmark
from compiler_gym.service.client_service_compiler_env import ClientServiceCompilerEnv
from support import STEPLAKE, Server, dedup, query

SOURCE = b"""int weigh(const int *values, int count) {
    int sum = 0;
    for (int i = 0; i < count; i++) {
        sum += values[i] * (i % 3);
    }
    return sum;
}
"""
LOOPS = b"""// loops-v0 state 1
m = 48
k = 32
n = 64
%0 = input[m, k]
%1 = input[k, n]
%2 = multiply %0 %1
%3 = sum[k] %2
output %3[m, n]
"""


class Compilers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="steplake-compiler-gym-")
        self.addCleanup(folder.cleanup)
        self.lake = Path(folder.name) / "lake"

    def serve(self, environment, *arguments):
        server = Server("--env", environment, "--lake", self.lake, *arguments)
        self.addCleanup(server.stop)
        return server

    def make(self, server, program, **options):
        benchmark = Benchmark.from_file_contents("benchmark://user-v0/program", program)
        env = ClientServiceCompilerEnv(service=server.address, benchmark=benchmark, **options)
        self.addCleanup(env.close)
        return env

    def verify(self):
        """Plays every transition of the lake again."""
        command = [STEPLAKE, "--lake", str(self.lake), "verify", "--replay", "100"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("transitions agree (100.00%)", done.stdout + done.stderr)

    def test_flags_of_gcc(self):
        server = self.serve("gcc-v0", "--observe", "obj_size,choices", "--rewards", "obj_size")
        env = self.make(server, SOURCE, observation_space="obj_size")
        sizes = [env.reset()]
        self.assertEqual(sizes[0], env.observation["obj_size_O0"])
        # In the order of the options, which is that of the command line.
        names = ["-Os", "-fomit-frame-pointer", "-fno-tree-loop-optimize"]
        for name in names:
            size, _, done, info = env.step(env.action_space.names.index(name))
            self.assertFalse(done, info)
            sizes.append(size)
        self.assertLess(sizes[1], sizes[0])
        # `GCC 12.2.0 (…)`
        compiler = "gcc-" + env.compiler_version.split()[1].split(".")[0]
        self.assertEqual(env.observation["command_line"], " ".join([compiler, *names, "-w -c src.c -o obj.o"]))
        # The sizes are those of the compiler by hand.
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "program.i").write_bytes(SOURCE)
            command = [compiler, *names, "-w", "-c", "program.i", "-o", "program.o"]
            subprocess.run(command, cwd=folder, check=True)
            self.assertEqual(Path(folder, "program.o").stat().st_size, sizes[-1])
            self.assertEqual(len(env.observation["obj"]), sizes[-1])
        self.assertEqual(sum(choice >= 0 for choice in env.observation["choices"]), len(names))
        fork = env.fork()
        self.addCleanup(fork.close)
        fork.step(fork.action_space.names.index("-O3"))
        self.assertIn("-O3", fork.observation["command_line"])
        self.assertIn("-Os", env.observation["command_line"])
        fork.close()
        env.close()
        self.assertEqual(server.stop(), 0)
        dedup(self.lake)
        rows = query(
            self.lake,
            "SELECT obj_size, action_name(action) AS name FROM steps JOIN observations USING (state_id) "
            "WHERE episode_id = (SELECT min(episode_id) FROM episodes) ORDER BY step_index",
        )
        self.assertEqual([row["obj_size"] for row in rows], sizes)
        self.assertEqual([row.get("name") for row in rows], [None, *names])
        self.verify()

    def test_the_clients_own_class_for_gcc(self):
        server = self.serve("gcc-v0")
        compiler = self.make(server, SOURCE).compiler_version
        # Without -O, an assertion of the client ends its description of newer compilers.
        script = """
import sys
import gym, compiler_gym
from compiler_gym.datasets import Benchmark

address, compiler, source = sys.argv[1:]
benchmark = Benchmark.from_file_contents("benchmark://user-v0/program", source.encode())
env = gym.make("gcc-v0", service=address, gcc_bin=compiler, benchmark=benchmark, reward_space="obj_size")
env.reset()
_, reward, done, info = env.step(env.action_space.names.index("-Os"))
print(done, type(reward).__name__, env.commandline().split()[1], len(env.obj) == env.obj_size, env.choices[0])
try:
    env.step(10000)
except ValueError as error:
    print(error)
env.close()
"""
        compiler = "gcc-" + compiler.split()[1].split(".")[0]
        command = [sys.executable, "-O", "-W", "ignore", "-c", script, server.address, compiler, SOURCE.decode()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = done.stdout.splitlines()
        self.assertEqual(said[0], "False float -Os True 6")
        self.assertRegex(said[1], "^Out-of-range: ")

    def test_the_clients_own_class_for_loop_nests(self):
        program = b"// loops-v0 state 1\nn = 4096\n%0 = input[n]\n%1 = input[n]\n%2 = add %0 %1\noutput %2[n]\n"
        benchmark = Benchmark.from_file_contents("benchmark://user-v0/program", program)
        address = self.serve("loops-v0").address
        env = gym.make("loop_tool-v0", service=address, benchmark=benchmark, rewards=[], reward_space=None)
        self.addCleanup(env.close)
        env.action_space = "loop_tool-v0"
        self.assertEqual(env.reset().tolist(), [0, 4096, 0])
        self.assertFalse(env.step(env.action_space.names.index("toggle_mode"))[2])

    def test_a_program_that_nobody_preprocessed(self):
        env = self.make(self.serve("gcc-v0"), b"#include <stdio.h>\n" + SOURCE)
        with self.assertRaisesRegex(Exception, "line 1 of its source is `#include <stdio.h>`.*gcc -E -P"):
            env.reset()

    def test_loop_nests(self):
        server = self.serve("loops-v0")
        env = self.make(server, LOOPS, observation_space="EstimatedCycles")
        before = env.reset()
        self.assertEqual(before, env.observation["EstimatedCyclesInitial"])
        # The loops are m, k and n: the product goes over whole rows of the second operand.
        for name in ["split[2,16]", "vectorize[3]"]:
            after, _, done, info = env.step(env.action_space.names.index(name))
            self.assertFalse(done, info)
            self.assertFalse(info["action_had_no_effect"], name)
        self.assertLess(after, before)
        self.assertEqual(env.observation["Loops"], 4)
        self.assertIn("n 16 vectorize", env.observation["loop_tree"])
        _, _, _, info = env.step(env.action_space.names.index("merge[0]"))
        self.assertTrue(info["action_had_no_effect"])
        env.close()
        self.assertEqual(server.stop(), 0)
        dedup(self.lake)
        [counts] = query(self.lake, "SELECT count(*) AS transitions FROM state_transitions")
        self.assertEqual(counts["transitions"], 3)
        self.verify()

    def test_the_actions_of_loop_tool(self):
        program = b"// loops-v0 state 1\nn = 4096\n%0 = input[n]\n%1 = input[n]\n%2 = add %0 %1\noutput %2[n]\n"
        env = self.make(self.serve("loops-v0"), program)
        env.action_space = "loop_tool-v0"
        env.reset()
        self.assertEqual(env.action_space.names, ["toggle_mode", "up", "down", "toggle_thread"])
        self.assertIn("n 4096 parallel", env.observation["loop_tree"])
        env.multistep([3, 0, 1])
        self.assertEqual(len(env.observation["action_state"]), 3)
        self.assertNotIn("parallel", env.observation["loop_tree"])
