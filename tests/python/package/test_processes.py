"""Forked processes, signals, and the program of the worker."""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import steplake
from lakes import LakeCase

COUNT = "SELECT count(*) FROM steps"


def ask(lake, answers):
    """Ask the same question in another process."""
    answers.put(lake.sql(COUNT).fetchone())


def use(env, answers):
    """Use an environment of another process."""
    try:
        env.step(0)
    except steplake.UsageError as error:
        answers.put(str(error))


class Processes(LakeCase):
    def test_a_lake_in_other_processes(self):
        wanted = self.lake.sql(COUNT).fetchone()
        for method in ["fork", "spawn", "forkserver"]:
            with self.subTest(method):
                context = multiprocessing.get_context(method)
                answers = context.Queue()
                children = [
                    context.Process(target=ask, args=(self.lake, answers)) for _ in range(2)
                ]
                for child in children:
                    child.start()
                self.assertEqual([answers.get(timeout=60) for _ in children], [wanted] * 2)
                for child in children:
                    child.join(60)
                    self.assertEqual(child.exitcode, 0)
        self.assertEqual(self.lake.sql(COUNT).fetchone(), wanted)

    def test_forks_after_questions_do_not_hang(self):
        # Half of such children hung when the idle threads of the parent were still parked.
        self.ask_in_children()

    def test_forks_beside_waiting_threads_do_not_hang(self):
        # The writer of the recording and the threads of the loader wait meanwhile.
        with steplake.record(self.folder / "beside", steplake.make("toy-v0")) as recorded:
            recorded.reset()
            batches = iter(self.lake.dataset("state_transitions").loader(4, num_threads=4))
            next(batches)
            self.ask_in_children()

    def ask_in_children(self):
        context = multiprocessing.get_context("fork")
        for _ in range(15):
            wanted = self.lake.sql(COUNT).fetchone()
            answers = context.Queue()
            children = [context.Process(target=ask, args=(self.lake, answers)) for _ in range(2)]
            for child in children:
                child.start()
            self.assertEqual([answers.get(timeout=30) for _ in children], [wanted] * 2)
            for child in children:
                child.join(30)
                self.assertEqual(child.exitcode, 0)

    def test_an_environment_stays_with_its_process(self):
        env = steplake.make("llvm-v0")
        env.reset()
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        child = context.Process(target=use, args=(env, answers))
        child.start()
        self.assertIn("make one here", answers.get(timeout=60))
        child.join(60)
        # The end of the child ended no worker of ours.
        self.assertFalse(env.step(0)[2])
        env.close()

    def test_a_recording_survives_a_fork(self):
        env = steplake.make("toy-v0")
        path = self.folder / "forked"
        with steplake.record(path, env) as recorded:
            recorded.reset()
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
            recorded.step(0)
        self.assertEqual(steplake.open(path).sql(COUNT).fetchone(), (2,))

    def test_threads_ask_at_once(self):
        wanted, found = self.lake.sql(COUNT).fetchone(), []

        def ask_once():
            found.append(self.lake.sql(COUNT).fetchone())

        threads = [threading.Thread(target=ask_once) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [wanted] * 8)

    def test_threads_may_be_the_first_to_use_it(self):
        code = """
import threading
import steplake

failed = []
threading.excepthook = failed.append
started = threading.Barrier(4)

def use():
    started.wait()
    steplake.make("llvm-v0").close()

threads = [threading.Thread(target=use) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(failed))
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("0\n", ""))

    def test_the_thread_that_imports_it_may_end(self):
        # A new thread gets the id of one that has ended.
        code = """
import threading

def use():
    import steplake
    with steplake.make("llvm-v0", benchmark="benchmark://steplake-v0/huffman") as env:
        env.reset()

for _ in range(3):
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Signals(LakeCase):
    def interrupted(self, code):
        """Run code, interrupt it, and return how long it took to end and what it said."""
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.assertEqual(process.stdout.readline(), "begun\n")
        time.sleep(1.5)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        return time.monotonic() - begun, out, err

    def test_ctrl_c_stops_what_takes_long(self):
        numbers = "range(100000000)"
        slow = f"SELECT count(*) FROM {numbers} a, {numbers} b WHERE a.value <> b.value"
        lake = f"import steplake; lake = steplake.open({str(self.lake.path)!r});"
        other = str(self.folder / "interrupted")
        for name, code in {
            "a question": f"{lake} print('begun', flush=True); lake.sql({slow!r}).fetchall()",
            "a stream": f"{lake} import pyarrow as pa; print('begun', flush=True); "
            f"pa.table(lake.sql({slow!r}))",
            "a run": f"import steplake; print('begun', flush=True); steplake.generate({other!r}, "
            "'generator://toy-v0/0..99', environment='toy-v0', episodes=10_000_000)",
        }.items():
            with self.subTest(name):
                seconds, out, err = self.interrupted(code)
                # pyarrow makes an exception of its own of what a stream says.
                self.assertRegex(err.rstrip(), r"KeyboardInterrupt$|External error: interrupted$")
                self.assertLess(seconds, 20)
        kept = steplake.open(other).sql("SELECT count(*) FROM episodes").fetchone()
        self.assertGreater(kept[0], 0)

    def test_ctrl_c_keeps_what_was_measured(self):
        path = self.folder / "measured"
        programs = ["benchmark://steplake-v0/fourier", "benchmark://steplake-v0/huffman"]
        run = {"episodes": 2, "episode_length": 2, "progress": False}
        steplake.generate(path, programs, **run)
        code = f"""
import steplake
lake = steplake.open({str(path)!r}, progress=False)
lake.measure(benchmarks={programs[0]!r}, states="initial", samples=1, warmups=0)
print("begun", flush=True)
lake.measure(benchmarks={programs[1]!r}, samples=100_000)
"""
        seconds, _, err = self.interrupted(code)
        self.assertRegex(err.rstrip(), "KeyboardInterrupt$")
        self.assertLess(seconds, 20)
        kept = steplake.open(path).sql("SELECT benchmark_uri FROM measurements").fetchall()
        self.assertEqual(kept, [(programs[0],)])

    def test_ctrl_c_ends_an_observation_between_two_runs(self):
        code = """
import steplake
env = steplake.make("llvm-v0", benchmark="benchmark://steplake-v0/huffman")
env.reset()
env.runtime_observation_count = 100_000
print("begun", flush=True)
try:
    env.observation["Runtime"]
except KeyboardInterrupt:
    env.runtime_observation_count = 2
    print(len(env.observation["Runtime"]), env.step(env.action_space["mem2reg"])[2])
"""
        seconds, out, err = self.interrupted(code)
        self.assertEqual((out, err), ("2 False\n", ""))
        self.assertLess(seconds, 20)

    def slow_program(self, branches=3000):
        """Write a program over which `jump-threading` takes 14 s, and return its path."""
        lines = ["define i32 @f(i32 %p) {", "entry:", "  br label %b0", "b0:"]
        value = "%p"
        for n in range(branches):
            lines += [
                f"  %c{n} = icmp eq i32 {value}, {n}",
                f"  br i1 %c{n}, label %t{n}, label %b{n + 1}",
                f"t{n}:",
                f"  %s{n} = add i32 {value}, {n}",
                f"  br label %b{n + 1}",
                f"b{n + 1}:",
                f"  %p{n} = phi i32 [ {value}, %b{n} ], [ %s{n}, %t{n} ]",
            ]
            value = f"%p{n}"
        lines += [f"  ret i32 {value}", "}", ""]
        path = self.folder / "slow.ll"
        path.write_text("\n".join(lines))
        return str(path)

    def test_ctrl_c_ends_a_step_of_a_compiler(self):
        program = self.slow_program()
        code = f"""
import steplake
env = steplake.make("llvm-v0", benchmark={program!r})
env.reset()
print("begun", flush=True)
try:
    env.step(env.action_space["jump-threading"])
except KeyboardInterrupt:
    # The step was not taken, and the environment is there.
    print(len(env.actions), env.step(env.action_space["mem2reg"])[2], env.validate().okay())
"""
        seconds, out, err = self.interrupted(code)
        self.assertEqual((out, err), ("0 False True\n", ""))
        # The step itself takes longer.
        self.assertLess(seconds, 10)

    def test_ctrl_c_ends_a_step_of_a_vector(self):
        program = self.slow_program()
        code = f"""
import gymnasium, steplake
programs = ["benchmark://steplake-v0/fourier", {program!r}, {program!r}]
vector = gymnasium.make_vec("steplake:llvm-v0", num_envs=3, benchmark=programs)
vector.reset()
slow = vector.single_action_space["jump-threading"]
print("begun", flush=True)
try:
    vector.step([slow] * 3)
except KeyboardInterrupt:
    print([len(env.actions) for env in vector.envs])
    vector.step([vector.single_action_space["mem2reg"]] * 3)
    print([len(env.actions) for env in vector.envs])
    print([env.validate(semantics=False).okay() for env in vector.envs])
"""
        seconds, out, err = self.interrupted(code)
        self.assertEqual(err, "")
        self.assertEqual(out.splitlines(), ["[1, 0, 0]", "[2, 1, 1]", "[True, True, True]"])
        self.assertLess(seconds, 10)

    def test_a_handler_cannot_use_the_environment_that_waits(self):
        program = self.slow_program()
        code = f"""
import signal, steplake
env = steplake.make("llvm-v0", benchmark={program!r})
env.reset()
fork = env.fork()
def handler(*_):
    for use in [lambda: fork.observation['InstCount'], lambda: fork.step(0), lambda: env.step(0)]:
        try:
            use()
        except steplake.UsageError as error:
            print("middle of a call" in str(error))
    raise TimeoutError("enough")
signal.signal(signal.SIGINT, handler)
print("begun", flush=True)
try:
    env.step(env.action_space["jump-threading"])
except TimeoutError as error:
    print(error, len(env.actions), fork.step(0)[2], env.step(0)[2])
"""
        seconds, out, err = self.interrupted(code)
        self.assertEqual(err, "")
        self.assertEqual(out.split(), ["True"] * 3 + ["enough", "0", "False", "False"])


class Package(unittest.TestCase):
    def test_an_import_brings_nothing_heavy_along(self):
        heavy = "numpy gymnasium torch pyarrow pandas polars"
        code = f"import sys, steplake; print([m for m in {heavy.split()!r} if m in sys.modules])"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual((out.stdout, out.stderr), ("[]\n", ""))

    def test_warnings_of_the_library_are_seen(self):
        code = """
import sys, steplake
env = steplake.make("toy-v0")
for _ in range(2):
    with steplake.record(sys.argv[1], env):
        env.reset()
        env.step(0)
    lake = steplake.open(sys.argv[1])
    if _ == 0:
        lake.dedup()
lake.sql("SELECT count(*) FROM state_transitions").fetchall()
"""
        with tempfile.TemporaryDirectory() as folder:
            line = [sys.executable, "-c", code, str(Path(folder) / "lake")]
            out = subprocess.run(line, capture_output=True, text=True)
        self.assertRegex(out.stderr, "^steplake: warning: .*dedup")

    def test_gymnasium_may_come_later(self):
        code = (
            "import steplake, gymnasium; env = gymnasium.make('steplake:toy-v0'); "
            "env.reset(); print(env.unwrapped.benchmark.uri)"
        )
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual((out.stdout, out.stderr), ("generator://toy-v0/0\n", ""))

    def test_the_stubs_are_true(self):
        settings = Path(__file__).with_name("mypy.ini")
        for line in [
            ["mypy.stubtest", "steplake._steplake", "--mypy-config-file", settings],
            ["mypy", "--config-file", settings, "--strict", "--package", "steplake"],
        ]:
            with tempfile.TemporaryDirectory() as folder:
                out = subprocess.run(
                    [sys.executable, "-m", *line], capture_output=True, text=True, cwd=folder
                )
            self.assertEqual(out.returncode, 0, out.stdout + out.stderr)

    def test_the_command_line_program_has_the_same_compiler_states_and_lakes(self):
        command = os.environ["STEPLAKE"]
        own = str(Path(sys.executable).with_name("steplake"))
        said = [
            subprocess.run(
                [program, "replay", "benchmark://steplake-v0/huffman", "mem2reg", "gvn"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for program in (command, own)
        ]
        self.assertEqual(*said)
        env = steplake.make("llvm-v0", benchmark="benchmark://steplake-v0/huffman")
        env.reset()
        env.multistep([env.action_space["mem2reg"], env.action_space["gvn"]])
        self.assertIn(env.state.state_id, said[0].splitlines()[-1])
        described = subprocess.run(
            [command, "env", "describe"], capture_output=True, text=True, check=True
        )
        self.assertIn(env.compiler, described.stdout)
        with tempfile.TemporaryDirectory() as folder:
            lake = Path(folder) / "lake"
            with steplake.record(lake, env) as recorded:
                recorded.reset()
                recorded.step(0)
            for program in (command, own):
                subprocess.run(
                    [program, "--lake", lake, "generate"]
                    + ["--benchmark", "benchmark://steplake-v0/huffman"]
                    + ["--episodes", "1", "--episode-length", "3"],
                    check=True,
                    capture_output=True,
                )
            self.assertTrue(steplake.open(lake).verify(replay=4))


if __name__ == "__main__":
    unittest.main()
