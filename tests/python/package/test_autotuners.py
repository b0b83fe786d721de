"""The example `examples/autotuners` and the bench `benches/autotuners`, in small.

The library of each tuner is tested where it is installed: Nevergrad always, OpenTuner where
`TORCH=yes scripts/test-python.sh` installs what takes long.
"""

import contextlib
import importlib.util
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import steplake
from test_machine import SUBTRACTION, runnable

REPOSITORY = Path(__file__).parents[3]
EXAMPLE = REPOSITORY / "examples" / "autotuners"
BENCH = REPOSITORY / "benches" / "autotuners"
# They have modules of the same names as other examples.
FOLDERS = [str(EXAMPLE), str(BENCH)]
sys.path[:0] = FOLDERS
import judging  # noqa: E402
import methods  # noqa: E402
import objectives  # noqa: E402
import pictures  # noqa: E402
import protocol  # noqa: E402
import report  # noqa: E402
import tuners  # noqa: E402

# Other examples have a module of that name.
del sys.modules["report"]

specification = importlib.util.spec_from_file_location("autotuners_main", EXAMPLE / "main.py")
main = importlib.util.module_from_spec(specification)
sys.modules[specification.name] = main
specification.loader.exec_module(main)
for name in FOLDERS:
    sys.path.remove(name)

TOY = "generator://toy-v0/4"
FOURIER = "benchmark://steplake-v0/fourier"
HAS_OPENTUNER = importlib.util.find_spec("opentuner") is not None
HERE = sorted(name for name in tuners.TUNERS if HAS_OPENTUNER or not name.startswith("opentuner"))
#: A program without machine code, until `simplifycfg` removes the block that the assembler rejects.
NO_MACHINE_CODE = """
define i32 @first(i32 %x) {
entry:
  %slot = alloca i32
  store i32 %x, ptr %slot
  %y = load i32, ptr %slot
  br i1 false, label %bad, label %good
bad:
  call void asm sideeffect "no such instruction", ""()
  br label %good
good:
  ret i32 %y
}
"""


def settings(tuner, evaluations=12, **others):
    """Settings for the toy environment."""
    own = {"objective": "Cost", "environment": "toy-v0", "length": 20, "seed": 5, **others}
    return main.Settings(tuner, budget=protocol.Budget(evaluations=evaluations), **own)


class Recorded(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def tuned(self, name, how, programs=(TOY,)):
        """Tune programs into a lake, and return what came of each, and the lake."""
        found = []
        main.tune_all(self.folder / name, programs, how, lambda env, tuned: found.append(tuned))
        lake = steplake.open(self.folder / name, progress=False)
        self.addCleanup(lake.close)
        return found, lake

    def assert_recorded(self, tuned, lake, space):
        """Everything that was tried is in the lake, with the cost that the tuner was told."""
        untouched, *episodes = judging.ways(lake, space)
        first = tuned.first if math.isfinite(tuned.first) else math.inf
        self.assertEqual(untouched[1:], (first, []))
        self.assertEqual(len(episodes), len(tuned.tried))
        steps = lake.sql(
            "SELECT episode_id, array_agg(action ORDER BY step_index) FROM steps "
            "WHERE action IS NOT NULL GROUP BY 1"
        )
        actions = dict(steps.fetchall())
        for (episode, cost, way), tried in zip(episodes, tuned.tried, strict=True):
            self.assertEqual((cost, way), (tried.cost, list(tried.sequence[: tried.after])))
            played = actions.get(episode, [])
            self.assertEqual(played, list(tried.sequence[: len(played)]))
            self.assertEqual(len(played) == len(tried.sequence), tried.failure is None)

    def test_everything_that_a_tuner_tries_is_recorded_and_told(self):
        for name in HERE:
            with self.subTest(name):
                [tuned], lake = self.tuned(name, settings(name))
                self.assertGreater(len(tuned.tried), 1)
                self.assert_recorded(tuned, lake, "Cost")
                [policy] = lake.sql("SELECT DISTINCT policy FROM episodes").fetchone()
                self.assertEqual(policy, name)

    def test_one_seed_gives_one_table_whatever_else_draws(self):
        columns = "episode_id, step_index, benchmark_uri, action, state_id, reward_Cost"
        for name in HERE:
            with self.subTest(name):
                tables = []
                for turn, seed in enumerate((5, 5, 6)):
                    random.seed(turn)
                    np.random.seed(turn)
                    _, lake = self.tuned(f"{name}-{turn}", settings(name, seed=seed))
                    tables.append(lake.sql(f"SELECT {columns} FROM steps ORDER BY 1, 2").fetchall())
                self.assertEqual(tables[0], tables[1])
                self.assertNotEqual(tables[0], tables[2])
                # The generators of the process belong to others.
                drawn = random.random()
                random.seed(turn)
                self.assertEqual(drawn, random.random())

    def test_a_failing_compile_is_told_and_does_not_end_the_loop(self):
        programs = [f"generator://toy-v0/{seed}" for seed in range(3)]
        found, lake = self.tuned("lake", settings("random", 60, length=60), programs)
        self.assertEqual([len(tuned.tried) for tuned in found], [60, 60, 60])
        failed = [one for tuned in found for one in tuned.tried if one.failure]
        self.assertGreater(len(failed), 3)
        self.assertTrue(all(math.isfinite(one.cost) for one in failed))
        [count] = lake.sql("SELECT count(*) FROM steps WHERE state_id IS NULL").fetchone()
        self.assertEqual(count, len(failed))

    def test_a_tuner_of_ones_own_ends_when_it_likes(self):
        (self.folder / "mine.py").write_text(
            "class Mine:\n"
            "    def __init__(self, space): self.left, self.told = [[0], [1, 2]], []\n"
            "    def ask(self): return self.left.pop() if self.left else None\n"
            "    def tell(self, sequence, cost): self.told.append((sequence, cost))\n"
            "def make(space, seed, evaluations): return Mine(space)\n"
        )
        sys.path.insert(0, str(self.folder))
        self.addCleanup(sys.path.remove, str(self.folder))
        [tuned], lake = self.tuned("lake", settings("mine:make"))
        self.assertEqual([one.sequence for one in tuned.tried], [[1, 2], [0]])
        self.assert_recorded(tuned, lake, "Cost")
        for wrong in ("theirs", "mine:nothing", "no_such_module:make"):
            with self.assertRaisesRegex(tuners.NoSuchTuner, wrong.partition(":")[0]):
                tuners.maker(wrong)

    def test_time_is_a_budget_too(self):
        env = main.environment(settings("random"))
        self.addCleanup(env.close)
        env.benchmark = TOY
        cost = objectives.StateCost(env, "Cost")
        tuner = tuners.make("random", protocol.Space(8, 20), 1, None)
        self.assertEqual(list(protocol.tune(tuner, cost, protocol.Budget(seconds=0))), [])
        both = protocol.Budget(evaluations=3, seconds=3600)
        self.assertEqual(len(list(protocol.tune(tuner, cost, both))), 3)

    def test_states_without_machine_code_have_no_size(self):
        program = self.folder / "program.ll"
        program.write_text(NO_MACHINE_CODE)
        env = main.environment(settings("random", environment="llvm-v0"))
        with (
            env,
            steplake.record(self.folder / "lake", env, observe=["ObjectTextSizeBytes"]) as recorded,
        ):
            recorded.benchmark = program
            cost = objectives.StateCost(env, "ObjectTextSizeBytes")
            names = [["mem2reg"], ["mem2reg", "simplifycfg", "instcombine"], []]
            sequences = [[env.action_space[name] for name in sequence] for sequence in names]
            tried = [cost(sequence) for sequence in sequences]
            tuned = main.Tuned("program", cost.first, cost.oz, tried, 0.0)
        self.assertTrue(math.isnan(cost.first) and tried[1].after == 2, tried)
        self.assertEqual([math.isinf(one.cost) for one in tried], [True, False, True])
        lake = steplake.open(self.folder / "lake", progress=False)
        self.addCleanup(lake.close)
        self.assert_recorded(tuned, lake, "ObjectTextSizeBytes")


class Command(unittest.TestCase):
    def run_main(self, *arguments):
        command = [sys.executable, str(EXAMPLE / "main.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_it_says_what_it_found(self):
        with tempfile.TemporaryDirectory() as folder:
            to = [f"--lake={folder}/lake", f"--json={folder}/found.json", "--length=40", "--seed=1"]
            done = self.run_main("random", FOURIER, "--evaluations=4", "--objective=size", *to)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"fourier: 4 sequences, 0 of them failed")
            self.assertRegex(
                done.stdout, r"ObjectTextSizeBytes [\d,]+ \(4,260 untouched, 4,452 after"
            )
            self.assertIn("opt-22 -passes='", done.stdout)
            [found] = json.loads(Path(folder, "found.json").read_text())
            self.assertEqual(min(found["costs"]), found["best"]["cost"])

    def test_a_run_time_is_that_of_the_program_after_the_sequence(self):
        with tempfile.TemporaryDirectory() as folder:
            to = [f"--lake={folder}/lake", f"--json={folder}/found.json", "--length=3"]
            done = self.run_main("greedy", FOURIER, "--objective=runtime", "--evaluations=1", *to)
            self.assertEqual(done.returncode, 0, done.stderr)
            [found] = json.loads(Path(folder, "found.json").read_text())
            self.assertTrue(0 < found["best"]["cost"] == found["costs"][0])
            self.assertEqual(len(found["best"]["sequence"]), 1)

    def test_a_mistake_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            for wrong, says in [
                (["no-such", FOURIER], "there is no tuner no-such: write nevergrad, "),
                (["random", "benchmark://steplake-v0/no-such"], "no-such"),
            ]:
                done = self.run_main(*wrong, f"--lake={folder}/lake")
                self.assertNotEqual(done.returncode, 0)
                [line] = done.stderr.strip().splitlines()
                self.assertIn(says, line)


class Bench(unittest.TestCase):
    def test_the_table_is_made_and_not_made_again(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(BENCH / "main.py"), folder, "--evaluations=3"]
            command += ["--objectives=ir", "--length=12", f"--programs={FOURIER}"]
            command += [f"--steplake={os.environ['STEPLAKE']}"]
            command += ["--methods=hill-climbing,nevergrad-integers"]
            first = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(first.returncode, 0, first.stderr)
            runs = {path: path.read_bytes() for path in Path(folder).glob("*.json")}
            # No compiler runs the second time.
            again = subprocess.run(
                [*command, "--steplake=/bin/false", "--python=/bin/false"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(again.stdout, first.stdout)
            self.assertEqual(
                {path: path.read_bytes() for path in Path(folder).glob("*.json")}, runs
            )
            self.assertIn("code size, -Oz / found (1 programs)", first.stdout)
            self.assertIn("<svg", Path(folder, "table.svg").read_text())
            for path, text in runs.items():
                found = json.loads(text)
                self.assertEqual((found["is_run"], found["evaluations"]), (True, 3), path)
                self.assertEqual(found["cost"], min(found["costs"]))
                self.assertEqual(found["ratio"], found["baseline"] / found["cost"])
                self.assertIn(
                    f"{found['program']},{found['first']}", Path(folder, "runs.csv").read_text()
                )

    def test_a_policy_that_the_binary_lacks_is_left_out(self):
        steplake_binary = os.environ["STEPLAKE"]
        plan = methods.Plan(1, None, 5, 0, 1, steplake_binary, sys.executable)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(methods.LeftOut, "no-such"):
                methods.run_policy("no-such", "ir", FOURIER, plan, Path(folder, "lake"))
            with self.assertRaises(methods.Failed):
                elsewhere = Path(folder, "file")
                elsewhere.write_text("no lake")
                methods.run_policy("beam", "ir", FOURIER, plan, elsewhere)

    def test_a_policy_ends_when_its_time_is_up(self):
        # A machine with other work may not begin in a short time.
        for seconds in (1, 4, 16, 64):
            plan = methods.Plan(None, seconds, 5, 0, 1, os.environ["STEPLAKE"], sys.executable)
            with (
                tempfile.TemporaryDirectory() as folder,
                contextlib.suppress(methods.Failed, steplake.NoSuchLake),
            ):
                lake = Path(folder, "lake")
                methods.run_policy("hill-climbing", "ir", FOURIER, plan, lake)
                with steplake.open(lake, progress=False) as opened:
                    if judging.ways(opened, "IrInstructionCount"):
                        return
        self.fail("nothing was recorded until the time was up")

    def test_means_are_over_the_programs_that_all_methods_have(self):
        def rows(**ratios):
            return [
                {"program": program, **({"error": "no"} if ratio is None else {"ratio": ratio})}
                for program, ratio in ratios.items()
            ]

        by_method = {"greedy": rows(a=2.0, b=0.5, c=8.0), "random": rows(a=4.0, b=1.0, c=None)}
        by_method["lamcts"] = rows(a=None, b=None, c=None)
        summary = report.summarised({"ir": by_method})["ir"]
        self.assertEqual(set(summary), {"greedy", "random"})
        self.assertAlmostEqual(summary["greedy"].value, 1.0)
        self.assertAlmostEqual(summary["random"].value, 2.0)
        in_pairs = report.pairs({"ir": by_method}).splitlines()[2:]
        self.assertEqual(in_pairs, ["| code size | random | greedy | 2.000 | 2, 0 |"])
        said = "\n".join(report.remarks({"ir": by_method}))
        self.assertIn("LaMCTS: 3 runs failed, such as: no", said)
        self.assertIn("no intervals, of fewer than 5 programs", said)

    def test_few_programs_have_no_interval(self):
        ratios = [1.0, 4.0, 2.0, 2.0, 1.5]
        for count in range(1, report.INTERVAL_PROGRAMS_MIN):
            mean = report.mean_of(ratios[:count])
            self.assertIsNone(mean.interval)
            self.assertNotIn("(", str(mean))
        mean = report.mean_of(ratios)
        low, high = mean.interval
        self.assertTrue(1.0 <= low <= mean.value <= high <= 4.0)
        self.assertIn(" to ", str(mean))

    def test_methods_are_drawn_from_the_best_down_and_by_actions(self):
        mean = report.Mean
        summary = {
            "ir": {"greedy": mean(0.8, None), "random": mean(1.1, None)},
            "size": {"coreset": mean(1.3, None), "greedy": mean(1.4, None)},
        }
        self.assertEqual(pictures.in_order(summary), ["random", "greedy", "coreset"])
        row = {"first": 8, "baseline": 8, "cost": 2, "costs": [4, None, 1, 2]}
        row["lengths"] = [10, 5, 5, 20]
        # The cost of 1 is that of a wrong result.
        reached = pictures.reached([row], [5, 10, 20, 39, 40])
        self.assertEqual([round(one) for one in reached], [1, 2, 2, 2, 4])

    def test_lines_that_run_on_each_other_are_both_seen(self):
        def row(program):
            found = {"program": program, "first": 8, "baseline": 8, "cost": 4, "ratio": 2.0}
            return {**found, "costs": [4], "lengths": [10]}

        results = {"ir": {name: [row("a")] for name in ("greedy", "beam")}}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "evaluations.svg")
            pictures.draw_evaluations(path, results)
            text = path.read_text()
        for title in ("greedy", "beam"):
            self.assertIn(f"<!-- {title} -->", text)
        styles = set(re.findall(r'style="fill: none;([^"]*stroke-width: [^"]*)"', text))
        widths = {re.search(r"stroke-width: ([\d.]+)", style)[1] for style in styles}
        self.assertLessEqual({"3.2", "1.1"}, widths, styles)

    def test_a_policy_plays_as_many_actions_as_all_others(self):
        plan = methods.Plan(3, None, 5, 0, 1, os.environ["STEPLAKE"], sys.executable)
        self.assertEqual(plan.actions, 15)
        for policy in ("greedy", "hill-climbing"):
            with tempfile.TemporaryDirectory() as folder:
                lake = Path(folder, "lake")
                methods.run_policy(policy, "ir", FOURIER, plan, lake)
                with steplake.open(lake, progress=False) as opened:
                    played = judging.played(opened, "IrInstructionCount")
                self.assertEqual(sum(count for _, count in played), 15, policy)

    def test_a_wrong_result_gives_way_to_the_next_one(self):
        space = "IrInstructionCount"
        try:
            env = steplake.make("llvm-planted-v0", observation_space=space, reward_space=None)
        except steplake.UsageError:
            self.skipTest("an optimised build has no planted bug")
        self.addCleanup(env.close)
        env.benchmark = runnable(env, "subtraction", SUBTRACTION)
        ways, wrong, right = [], ["mem2reg", "planted-bug"], ["mem2reg"]
        for sequence in ([*wrong, "dce"], wrong, right):
            env.reset()
            actions = [env.action_space[name] for name in sequence]
            observed, *_ = env.multistep(actions)
            ways.append((len(ways), float(observed), actions))
        # Those that cost less, or as much and come first, are looked at first.
        self.assertLessEqual(max(way[1] for way in ways[:2]), ways[2][1])
        ways[:2] = reversed(ways[:2])
        found = judging.checked(env, ways)
        self.assertEqual((found["actions"], found["wrong"]), (ways[2][2], 1), found)
        self.assertIn("its output", found["remarks"][0])


if __name__ == "__main__":
    unittest.main()
