"""The unmodified client starts the service itself, by way of the overlay."""

import contextlib
import io
import os
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import compiler_gym  # noqa: F401 (registers the environments)
import gym
from compiler_gym.random_search import random_search
from support import HUFFMAN, STEPLAKE

SERVICE = Path(os.environ["COMPILER_GYM_RUNFILES"]) / "compiler_gym/envs/llvm/service/compiler_gym-llvm-service"


class Managed(unittest.TestCase):
    def test_an_environment_without_any_argument(self):
        with gym.make("llvm-v0") as env:
            self.assertEqual(env.benchmark, "benchmark://cbench-v1/qsort")
            env.reset()
            path = Path(env.observation["BitcodeFile"])
            self.assertEqual(path.parent, env.service.connection.cache.path)
            self.assertEqual(path.read_bytes()[:2], b"BC")
            for _ in range(10):
                _, _, done, info = env.step(env.action_space.sample())
                self.assertFalse(done, info)
            process = env.service.connection.process
        self.assertEqual(process.returncode, 0)

    def test_the_other_environments(self):
        for name, observation, reward in [
            ("llvm-ic-v0", None, "IrInstructionCountOz"),
            ("llvm-autophase-codesize-v0", "Autophase", "ObjectTextSizeOz"),
            ("llvm-ir-ic-v0", "Ir", "IrInstructionCountOz"),
        ]:
            with self.subTest(name), gym.make(name, benchmark=HUFFMAN) as env:
                env.reset()
                self.assertEqual(env.reward_space.name, reward)
                self.assertEqual(env.observation_space_spec and env.observation_space_spec.id, observation)
                self.assertIsInstance(env.step(0)[1], float)

    def test_eight_environments_at_once(self):
        envs = [gym.make("llvm-v0", benchmark=HUFFMAN) for _ in range(8)]
        for env in envs:
            env.reset()
            env.step(env.action_space.flags.index("-mem2reg"))
        self.assertEqual(len({env.ir_sha1 for env in envs}), 1)
        processes = [env.service.connection.process for env in envs]
        for env in envs:
            env.close()
        self.assertEqual({process.returncode for process in processes}, {0})

    def test_a_service_ends_well_with_live_sessions(self):
        env = gym.make("llvm-v0", benchmark=HUFFMAN)
        env.reset()
        env.service.connection.process.terminate()
        self.assertEqual(env.service.connection.process.wait(timeout=30), 0)
        # The client notices, and starts another one.
        self.assertTrue(env.step(0)[2])
        env.reset()
        self.assertFalse(env.step(0)[2])
        env.close()

    def test_an_executable_is_made_where_its_command_line_says(self):
        # A relative path is one of the client's folder.
        self.addCleanup(os.chdir, Path.cwd())
        with tempfile.TemporaryDirectory() as folder, gym.make("llvm-v0") as env:
            os.chdir(folder)
            # Nobody declares what it calls: LLVM 10 only warned of that.
            Path("main.c").write_text("int main() { return helper() - 7; }")
            Path("helper.c").write_text("int helper() { return 7; }")
            benchmark = env.make_benchmark_from_command_line(["gcc", "main.c", "helper.c", "-o", "made"])
            self.assertFalse(Path("made").exists())
            env.reset(benchmark=benchmark)
            self.assertIn("@main()", env.ir)
            subprocess.run(["./made"], check=True)
            Path("made").unlink()
            env.step(env.action_space.flags.index("-mem2reg"))
            benchmark.compile(env)
            subprocess.run(["./made"], check=True)

    def test_a_random_search(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            env = random_search(
                make_env=lambda: gym.make("llvm-ic-v0", benchmark=HUFFMAN),
                outdir=Path(folder),
                patience=10,
                total_runtime=2,
                nproc=2,
            )
            self.assertGreater(env.episode_reward, 0)
            env.close()

    def test_flags_of_a_client_that_debugs(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = ["--alsologtostderr", "-v=2", "--logbuflevel=-1", f"--lake={folder}/lake --live-sessions 4"]
            variables = {**os.environ, "COMPILER_GYM_SERVICE_ARGS": flags[-1]}
            command = [str(SERVICE), f"--working_dir={folder}", *flags]
            process = subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL)
            port = Path(folder, "port.txt")
            while not port.exists():
                self.assertIsNone(process.poll())
                time.sleep(0.01)
            self.assertGreater(int(port.read_text()), 0)
            self.assertEqual(int(Path(folder, "pid.txt").read_text()), process.pid)
            process.terminate()
            self.assertEqual(process.wait(timeout=30), 0)
            self.assertTrue(Path(folder, "lake").is_dir())

    def test_a_service_goes_with_a_client_that_is_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            # A shell that starts the service, and is killed.
            shell = subprocess.Popen(
                ["sh", "-c", '"$0" compiler-gym-service --working_dir="$1" & wait', STEPLAKE, folder]
            )
            pid = Path(folder, "pid.txt")
            while not Path(folder, "port.txt").exists():
                self.assertIsNone(shell.poll())
                time.sleep(0.01)
            service = Path("/proc", pid.read_text().strip())
            shell.kill()
            shell.wait()
            while service.exists() and "zombie" not in (service / "status").read_text():
                time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()
