"""What belongs to the machine: programs that are built and run, measured and validated."""

import contextlib
import os
import signal
import tempfile
import unittest
from pathlib import Path

import numpy as np
import steplake
from steplake import _steplake, wrappers

HUFFMAN = "benchmark://steplake-v0/huffman"
FOURIER = "benchmark://steplake-v0/fourier"
SPACES = [
    "Runtime",
    "Buildtime",
    "IsBuildable",
    "IsRunnable",
    "TextSizeBytes",
    "TextSizeO0",
    "TextSizeO3",
    "TextSizeOz",
    "CpuInfo",
    "BitcodeFile",
]


#: Prints the difference of two numbers, which are in memory at first.
SUBTRACTION = """
@format = private constant [4 x i8] c"%d\\0A\\00"
declare i32 @printf(ptr, ...)
define i32 @difference(i32 %x, i32 %y) {
  %a = alloca i32
  %b = alloca i32
  store i32 %x, ptr %a
  store i32 %y, ptr %b
  %l = load i32, ptr %a
  %r = load i32, ptr %b
  %d = sub i32 %l, %r
  ret i32 %d
}
define i32 @main() {
  %d = call i32 @difference(i32 40, i32 2)
  %p = call i32 (ptr, ...) @printf(ptr @format, i32 %d)
  ret i32 0
}
"""


def runnable(env, name, text):
    """Return a program of LLVM's text that is linked and run as those of the project are."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.ll"
        path.write_text(text)
        program = env.make_benchmark(path).program
    _, (_, _, provenance, execution, _) = env.make_benchmark(HUFFMAN).__reduce__()
    uri = f"benchmark://user-v0/{name}"
    return _steplake.unpickled_benchmark(uri, program, provenance, execution, True)


def children():
    """The processes that this one has started, by their ids."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        # A thread may end meanwhile.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.update(map(int, (task / "children").read_text().split()))
    return found


class Observed(unittest.TestCase):
    def made(self, environment="llvm-v0", **options):
        options.setdefault("benchmark", HUFFMAN)
        env = steplake.make(environment, **options)
        self.addCleanup(env.close)
        return env

    def mute(self):
        """An environment whose program nobody says how to run."""
        env = self.made()
        env.reset(options={"benchmark": env.make_benchmark(HUFFMAN).program})
        return env

    def test_every_space_is_there_where_code_can_be_made(self):
        env = self.made()
        self.assertEqual(list(env.observation.spaces)[-len(SPACES) :], SPACES)
        self.assertTrue(set(SPACES).isdisjoint(env.observation))
        env.reset()
        for name in SPACES:
            self.assertIn(name, env.observation)
            value, space = env.observation[name], env.observation.spaces[name]
            is_number = isinstance(value, int)
            shown = np.asarray(value, space.dtype) if is_number else value
            self.assertTrue(space.contains(shown), f"{name}: {value!r} is not in {space}")
            drawn = space.sample()
            drawn = np.asarray(drawn) if is_number else drawn
            self.assertTrue(space.contains(drawn), name)
        self.assertIs(env.observation["IsRunnable"], True)
        self.assertGreater(env.observation["CpuInfo"]["cores_count"], 0)
        self.assertEqual(env.observation["TextSizeBytes"], env.observation["TextSizeO0"])
        # Code is generated at -O0, so fewer instructions may take more bytes.
        self.assertNotEqual(env.observation["TextSizeOz"], env.observation["TextSizeO0"])
        toy = self.made("toy-v0", benchmark="generator://toy-v0/1")
        self.assertNotIn("Runtime", toy.observation)
        with self.assertRaisesRegex(steplake.UsageError, "no observation space 'Runtime'"):
            toy.observation_space = "Runtime"

    def test_they_are_observed_as_other_spaces_are(self):
        env = self.made(observation_space="TextSizeBytes")
        observation, _ = env.reset()
        self.assertEqual((observation.shape, observation.dtype), ((), np.int64))
        self.assertEqual(observation, env.observation["TextSizeBytes"])
        other, *_ = env.step(env.action_space["mem2reg"])
        self.assertNotEqual(other, observation)
        for name in SPACES:
            env.observation_space = name
            observation, *_ = env.step(env.action_space["mem2reg"])
            self.assertTrue(env.observation_space.contains(observation), name)
        env.observation_space = "Runtime"
        observation, _ = env.reset()
        self.assertEqual((observation.shape, observation.dtype), ((1,), np.float64))
        (times, count), *_ = env.step(
            env.action_space["sroa"], observation_spaces=["Runtime", "IrInstructionCount"]
        )
        self.assertEqual((len(times), count), (1, env.observation["IrInstructionCount"]))

    def test_programs_are_built_and_run_as_often_as_wanted(self):
        env = self.made(observation_space="Runtime")
        counts = env.runtime_observation_count, env.runtime_warmup_runs_count
        self.assertEqual((*counts, env.buildtime_observation_count), (1, 0, 1))
        env.reset()
        env.runtime_observation_count, env.runtime_warmup_runs_count = 3, 1
        env.buildtime_observation_count = 2
        self.assertEqual(env.observation_space.shape, (3,))
        observation, *_ = env.step(env.action_space["mem2reg"])
        self.assertEqual((len(observation), len(env.observation["Buildtime"])), (3, 2))
        self.assertTrue((observation > 0).all())
        fork = env.fork()
        self.assertEqual(len(fork.observation["Runtime"]), 3)
        fork.runtime_observation_count = 2
        fork.close()
        self.assertEqual(len(env.observation["Runtime"]), 3)
        wrapped = wrappers.TimeLimit(env, 5)
        wrapped.runtime_observation_count = 4
        self.assertEqual(len(wrapped.observation["Runtime"]), 4)
        for wrong in (0, -1, 2**40, "3", 1.5):
            with self.assertRaises(steplake.UsageError):
                env.runtime_observation_count = wrong
        env.runtime_warmup_runs_count = 0

    def test_a_program_that_cannot_be_run_says_why(self):
        env = self.mute()
        self.assertIs(env.observation["IsRunnable"], False)
        self.assertEqual(env.observation["TextSizeBytes"], env.observation["ObjectTextSizeBytes"])
        for name in ("Runtime", "Buildtime"):
            with self.assertRaisesRegex(steplake.UsageError, "user-v0/.*: nobody says how"):
                env.observation[name]
        with self.assertRaisesRegex(steplake.UsageError, "cannot be run"):
            env.step(28, observation_spaces=["IrInstructionCount", "Runtime"])
        self.assertEqual(env.actions, [28])
        with self.assertRaisesRegex(steplake.UsageError, "call `reset` first"):
            self.made().observation["Runtime"]

    def test_a_program_may_end_with_any_exit_code(self):
        env = self.made()
        three = runnable(env, "three", "define i32 @main() {\n ret i32 3\n}\n")
        env.reset(options={"benchmark": three})
        self.assertEqual(len(env.observation["Runtime"]), 1)

    def test_a_program_that_does_not_run_to_its_end_has_no_time(self):
        env = self.made()
        trap = "declare void @llvm.trap()\ndefine i32 @main() {\n"
        trap = runnable(env, "trap", trap + " call void @llvm.trap()\n unreachable\n}\n")
        env.reset(options={"benchmark": trap})
        self.assertGreater(env.observation["TextSizeBytes"], 0)
        with self.assertRaisesRegex(steplake.ProgramFailed, "a run of the program failed.* signal"):
            env.observation["Runtime"]
        with self.assertRaises(steplake.ProgramFailed):
            env.step(env.action_space["mem2reg"], observation_spaces=["Runtime"])
        self.assertEqual(len(env.actions), 1)

    def test_forks_have_their_own_programs(self):
        env = self.made()
        env.reset()
        first = env.observation["TextSizeBytes"]
        fork = env.fork()
        self.addCleanup(fork.close)
        fork.step(fork.action_space["mem2reg"])
        self.assertNotEqual(fork.observation["TextSizeBytes"], first)
        self.assertEqual(env.observation["TextSizeBytes"], first)
        self.assertEqual(fork.observation["TextSizeO0"], first)

    def test_a_worker_that_is_killed_is_brought_back(self):
        before = children()
        env = self.made()
        env.reset()
        env.step(env.action_space["mem2reg"])
        size = env.observation["TextSizeBytes"]
        for again in range(2):
            [worker] = children() - before
            os.kill(worker, signal.SIGKILL)
            if again:
                env.step(env.action_space["mem2reg"])
            self.assertEqual(len(env.observation["Buildtime"]), 1)
            self.assertEqual(env.observation["TextSizeBytes"], size)

    def test_files_stay_until_the_environment_goes(self):
        env = self.made()
        env.reset()
        path = Path(env.observation["BitcodeFile"])
        self.assertEqual(path.read_bytes(), env.observation["Bitcode"])
        env.step(env.action_space["mem2reg"])
        other = Path(env.observation["BitcodeFile"])
        self.assertNotEqual(path.read_bytes(), other.read_bytes())
        env.reset()
        self.assertTrue(path.exists() and other.exists())
        env.close()
        self.assertFalse(path.exists() or other.exists())

    def test_recorded_environments_observe_them_and_lakes_do_not_have_them(self):
        env = self.made(observation_space="Runtime")
        env.runtime_observation_count = 2
        with tempfile.TemporaryDirectory() as folder:
            lake = Path(folder) / "lake"
            with steplake.record(lake, env) as recorded:
                recorded.reset()
                observation, *_ = recorded.step(env.action_space["mem2reg"])
                self.assertEqual(len(observation), 2)
                sizes = env.observation["TextSizeOz"], env.observation["TextSizeO0"]
                self.assertNotEqual(*sizes)
                self.assertTrue(Path(env.observation["BitcodeFile"]).exists())
            with steplake.open(lake) as opened:
                columns = opened.sql("SELECT * FROM observations").columns
                self.assertEqual(set(columns) & set(SPACES), set())
                refused = "`{}` belongs to the machine .* never recorded .* `lake.measure`"
                with self.assertRaisesRegex(steplake.UsageError, refused.format("TextSizeOz")):
                    opened.backfill("TextSizeOz")
                opened.dedup()
            with steplake.make("replay-v0", lake=lake) as replayed:
                self.assertNotIn("Runtime", replayed.observation)
            other = Path(folder) / "other"
            with self.assertRaisesRegex(steplake.UsageError, refused.format("Runtime")):
                with steplake.record(other, env, observe=["Autophase", "Runtime"]):
                    pass
            with self.assertRaisesRegex(steplake.UsageError, refused.format("CpuInfo")):
                steplake.generate(other, HUFFMAN, steps=1, observe=["CpuInfo"], progress=False)
            self.assertFalse(other.exists())


class Validated(unittest.TestCase):
    def test_a_program_that_does_what_it_should(self):
        with steplake.make("llvm-v0", benchmark=FOURIER) as env:
            env.reset()
            env.multistep([env.action_space[name] for name in ("mem2reg", "instcombine", "gvn")])
            result = env.validate()
            self.assertTrue(result.okay() and result.semantics_checked, result)
            result = env.validate(semantics=False)
            self.assertEqual((result.okay(), result.semantics_checked), (True, False))
            self.assertEqual(result.remarks, ())

    def test_a_program_that_cannot_be_run_is_played_again(self):
        with steplake.make("toy-v0", benchmark="generator://toy-v0/1") as env:
            env.reset()
            env.step(0)
            result = env.validate()
            self.assertEqual((result.okay(), result.semantics_checked), (True, False))
            self.assertEqual(result.remarks, ("nobody says how the program is run",))

    def planted(self):
        """An environment with an action that miscompiles, and a program that shows it."""
        try:
            env = steplake.make("llvm-planted-v0", benchmark=HUFFMAN)
        except steplake.UsageError:
            self.skipTest("an optimised build has no planted bug")
        self.addCleanup(env.close)
        env.benchmark = runnable(env, "subtraction", SUBTRACTION)
        return env

    def test_a_planted_bug_in_a_lake_is_found_and_written_down(self):
        env = self.planted()
        with tempfile.TemporaryDirectory() as folder:
            with steplake.record(Path(folder) / "lake", env):
                env.reset()
                env.multistep([env.action_space[name] for name in ("mem2reg", "planted-bug")])
            with steplake.open(Path(folder) / "lake", progress=False) as lake:
                report = lake.verify(semantics=10)
                self.assertFalse(report)
                self.assertIn("miscompiled by planted-bug", report.text)
                rows = lake.sql("SELECT kind, cardinality(actions) FROM miscompilations").fetchall()
                self.assertEqual(rows, [("output", 2)])
                measured = lake.measure(states="all", samples=1, warmups=0)
                self.assertEqual((measured.wrong_results, measured.left_out), (1, 1))
                [(uri, state, what)] = measured.problems
                self.assertEqual((uri, len(state)), ("benchmark://user-v0/subtraction", 40))
                self.assertIn("its output has `42", what)

    def test_a_planted_bug_is_found(self):
        env = self.planted()
        env.reset()
        env.step(env.action_space["mem2reg"])
        self.assertTrue(env.validate().okay())
        env.step(env.action_space["planted-bug"])
        result = env.validate()
        self.assertTrue(result.semantics_checked)
        differs = "after the actions, its output has `42\\n` where `38\\n` is expected"
        self.assertEqual(result.errors, (differs,))
        self.assertTrue(env.validate(semantics=False).okay())


class Measured(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = Path(folder.name) / "lake"
        steplake.generate(
            path, [HUFFMAN, FOURIER], episodes=4, episode_length=8, seed=1, progress=False
        )
        cls.lake = steplake.open(path, progress=False)
        cls.addClassCleanup(cls.lake.close)

    def rows(self, what):
        return self.lake.sql(f"SELECT {what} FROM measurements").fetchall()

    def test_samples_become_rows(self):
        report = self.lake.measure(benchmarks=HUFFMAN, samples=2, warmups=0, machine="one")
        self.assertEqual((report.space, report.programs, report.not_runnable), ("Runtime", 1, 0))
        self.assertEqual((report.problems, report.wrong_results, report.left_out), ([], 0, 0))
        self.assertEqual(report.samples, 2 * report.measurements)
        self.assertIn("named one", report.machine)
        self.assertIn("Runtime: ", repr(report))
        rows = [row for row in self.rows("benchmark_uri, space, machine, samples")]
        self.assertEqual(len(rows), report.measurements)
        self.assertEqual({row[:3] for row in rows}, {(HUFFMAN, "Runtime", report.machine)})
        self.assertTrue(all(len(row[3]) == 2 for row in rows))
        report = self.lake.measure("Buildtime", states="initial", samples=1, warmups=0)
        self.assertEqual((report.programs, report.measurements), (2, 2))
        self.assertEqual(len(self.rows("1")), len(rows) + 2)

    def test_what_cannot_be_measured_is_said(self):
        for wrong, says in [
            ({"space": "Autophase"}, "`Autophase` cannot be measured: write Runtime or Buildtime"),
            ({"states": "worst"}, "no states `worst`: write best, best=N, all or initial"),
            ({"cost": "Autophase"}, "no numbers of `Autophase`"),
            ({"benchmarks": "benchmark://steplake-v0/sudoku"}, "sudoku"),
            ({"space": "Buildtime", "cpu": 0}, "only runs are pinned"),
        ]:
            with self.assertRaisesRegex(steplake.UsageError, says):
                self.lake.measure(**wrong)

    def test_states_are_run_and_compared_with_the_first(self):
        report = self.lake.verify(semantics=2)
        self.assertTrue(report, report.text)
        self.assertRegex(report.text, "2 .*behave as their first states do")


if __name__ == "__main__":
    unittest.main()
