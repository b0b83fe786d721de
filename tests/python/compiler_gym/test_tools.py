"""What stands in for the programs that come with the client: `compute_observation`, and `opt`."""

import copy
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import compiler_gym  # noqa: F401 (registers the environments)
import gym
import networkx as nx
import numpy as np
from compiler_gym.envs.llvm import compute_observation
from compiler_gym.third_party import llvm
from support import HUFFMAN, PROGRAMS, Server

PASSES = ["-mem2reg", "-instcombine", "-simplifycfg", "-gvn"]
# A path, and times.
DIFFERENT = {"BitcodeFile", "Runtime", "Buildtime"}


def plain(value):
    """A value that can be compared."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, nx.Graph):
        return nx.node_link_data(value)
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value


# No command builds or runs a program that is a file of bitcode and nothing else: its size is that
# of its object.
OF_A_PLAIN_FILE = {
    "IsBuildable": lambda env: False,
    "IsRunnable": lambda env: False,
    "TextSizeBytes": lambda env: env.observation["ObjectTextSizeBytes"],
    "TextSizeO0": lambda env: env.observation["ObjectTextSizeO0"],
    "TextSizeO3": lambda env: env.observation["ObjectTextSizeO3"],
    "TextSizeOz": lambda env: env.observation["ObjectTextSizeOz"],
}


class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(lambda: cls.assertEqual(cls(), cls.server.stop(), 0))
        folder = tempfile.TemporaryDirectory(prefix="steplake-compiler-gym-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)

    def setUp(self):
        self.env = gym.make("llvm-v0", service=self.server.address, benchmark=HUFFMAN)
        self.addCleanup(self.env.close)
        self.env.reset()

    def opt(self, *arguments):
        command = [str(llvm.opt_path()), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_every_observation_is_that_of_a_session(self):
        path = PROGRAMS / "huffman.bc"
        for name in list(self.env.observation.spaces)[:26]:
            with self.subTest(name):
                space = self.env.observation.spaces[name]
                if name in DIFFERENT:
                    continue
                apart = compute_observation(space, path)
                if name in OF_A_PLAIN_FILE:
                    self.assertEqual(plain(apart), OF_A_PLAIN_FILE[name](self.env))
                    continue
                self.assertEqual(plain(apart), plain(self.env.observation[name]))

    def test_what_cannot_be_observed_is_said(self):
        space = self.env.observation.spaces["IrInstructionCount"]
        broken = self.folder / "broken.bc"
        broken.write_bytes(b"no bitcode")
        with self.assertRaisesRegex(ValueError, 'Failed to parse LLVM bitcode: ".*broken.bc"'):
            compute_observation(space, broken)
        space = copy.copy(space)
        space.id = "NotARealName"
        with self.assertRaisesRegex(ValueError, "Invalid observation space name: NOT_A_REAL_NAME"):
            compute_observation(space, PROGRAMS / "huffman.bc")

    def test_the_command_line_of_a_state_leads_there(self):
        self.env.multistep([self.env.action_space.flags.index(name) for name in PASSES])
        (self.folder / "input.bc").write_bytes((PROGRAMS / "huffman.bc").read_bytes())
        self.opt(*shlex.split(self.env.commandline())[1:])
        done = (self.folder / "output.bc").read_bytes()
        self.assertEqual(done, self.env.observation["Bitcode"].tobytes())
        # The same as text.
        disassembler = llvm.opt_path().with_name("llvm-dis")
        subprocess.run([disassembler, "input.bc", "-o", "input.ll"], check=True, cwd=self.folder)
        self.opt(*shlex.split(self.env.commandline(textformat=True))[1:])
        self.assertIn("define", (self.folder / "output.ll").read_text())
        count = compute_observation(self.env.observation.spaces["IrInstructionCount"], self.folder / "output.bc")
        self.assertEqual(count, self.env.observation["IrInstructionCount"])

    def test_the_optimiser_needs_no_folder_of_the_user(self):
        path = self.folder / "home_less.bc"
        command = [str(llvm.opt_path()), "-mem2reg", str(PROGRAMS / "huffman.bc"), "-o", str(path)]
        # With an empty variable, the system's own list of users is not asked either.
        subprocess.run(command, check=True, env={"PATH": os.environ["PATH"], "HOME": ""})
        self.assertEqual(path.read_bytes()[:2], b"BC")

    def test_the_compiler_takes_what_that_of_llvm_10_took(self):
        source = self.folder / "old.c"
        source.write_text("count; main() { char *p = &count; int x = p; return undeclared(x); }")
        compiler = str(llvm.clang_path())
        made = subprocess.run([compiler, "-S", "-emit-llvm", source, "-o", "-"], capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("-Wimplicit-function-declaration", made.stderr)
        self.assertIn("@undeclared(", made.stdout)
        wrong = subprocess.run([compiler, "-invalid-arg"], capture_output=True, text=True)
        self.assertIn("clang: error: unknown argument: '-invalid-arg'", wrong.stderr)
        frontend = subprocess.run([compiler, "-cc1", "-version"], capture_output=True, text=True)
        self.assertEqual(frontend.returncode, 0, frontend.stderr)

    def test_other_command_lines_are_for_the_optimiser_of_llvm(self):
        self.assertIn("LLVM version 22", self.opt("--version"))
        path = PROGRAMS / "huffman.bc"
        self.assertIn("define", self.opt("-passes=mem2reg", path, "-S", "-o", "-"))


class Programs(unittest.TestCase):
    """The programs that come with the client, without a network."""

    def run_program(self, name, *arguments, typed=""):
        # Nothing answers there, so whatever wants to be downloaded fails at once.
        proxy = "http://127.0.0.1:9"
        variables = {**os.environ, "http_proxy": proxy, "https_proxy": proxy}
        command = [sys.executable, "-W", "ignore", "-m", f"compiler_gym.bin.{name}", *arguments]
        done = subprocess.run(command, input=typed, capture_output=True, text=True, env=variables, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_service_is_described(self):
        said = self.run_program("service", "--env=llvm-v0")
        for text in ["benchmark://cbench-v1", "benchmark://npb-v0", "IrInstructionCountOz", "`-mem2reg`"]:
            self.assertIn(text, said)

    def test_a_shell_plays(self):
        typed = "list_benchmarks\nset_benchmark cbench-v1/huffman\naction -mem2reg\ncommandline\nexit\n"
        said = self.run_program("manual_env", "--env=llvm-v0", "--reward=IrInstructionCount", typed=typed)
        self.assertIn("cbench-v1/fourier", said)
        self.assertRegex(said, r"Actions -mem2reg in .* with reward [1-9]")
        self.assertIn("opt -mem2reg input.bc -o output.bc", said)


if __name__ == "__main__":
    unittest.main()
