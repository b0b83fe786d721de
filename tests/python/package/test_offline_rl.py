"""The example `examples/offline_rl`: its parts by themselves, and its quick form as a whole.

`TORCH=yes scripts/test-python.sh` installs PyTorch. Without it, what learns is left out, here and
in the quick form: it records, and judges all other contenders.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "offline_rl"
LEARNED = {"Q-learning", "behaviour cloning"}
OTHERS = {"random search", "a list by hand", "greedy search"}

try:
    import torch
except ImportError:
    torch = None

sys.path.insert(0, str(EXAMPLE))
import report  # noqa: E402

if torch:
    import learn
    import plan
    import transitions

# Other examples have modules of the same names.
sys.path.remove(str(EXAMPLE))
for name in ("collect", "contenders", "learn", "plan", "report", "transitions"):
    sys.modules.pop(name, None)


def chain():
    """Three states in a row, 400, 200 and 100 instructions: action 0 leads on, and 1 nowhere."""
    state, action, after = (torch.tensor(x) for x in [(0, 0, 1, 1), (0, 1, 0, 1), (1, 0, 2, 1)])
    cost, counts = torch.tensor([400.0, 200.0, 100.0]).double(), torch.eye(3, dtype=torch.int32)
    history = transitions.histories(torch.tensor([True, False, False]), state, action, after, 2)
    first = torch.tensor([0, 0, -1])
    best = torch.full((3,), 100.0).double()
    return transitions.Transitions(
        counts, counts + 1, cost, best, first, history, state, action, after
    )


class Parts(unittest.TestCase):
    def test_only_compilations_within_the_budget_count(self):
        traces = [[[8, 4, 6, 1]], [[8, 8, 2]]]
        for budget, wanted in [(0, [0.5, 0.5]), (1, [1, 0.5]), (2, [1, 2]), (9, [4, 2])]:
            self.assertEqual(report.ratios(traces, [4], budget)[:, 0].tolist(), wanted)

    def test_contenders_are_compared_program_by_program(self):
        traces = {"a": [[[8, 2], [9, 3]], [[8, 2], [9, 3]]], "b": [[[8, 4], [9, 3]]]}
        [found] = report.compare(traces, [4, 4], "a").values()
        self.assertAlmostEqual(found["mean"], 2**0.5)
        self.assertEqual(found["share_better"], 0.5)

    def test_the_interval_holds_the_mean(self):
        values = report.np.random.default_rng(1).lognormal(size=(3, 40))
        found = report.mean_with_interval(values)
        self.assertLess(found["low"], found["mean"])
        self.assertLess(found["mean"], found["high"])
        self.assertAlmostEqual(found["mean"], report.math.exp(report.np.log(values).mean()))


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Networks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Small networks are faster in one thread, and other tests may need the other cores.
        cls.addClassCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)

    def test_a_history_fades(self):
        fading = transitions.FADING
        wanted = [[0, 0, 0, 0], [1, 0, 0, fading], [1, 0, 0, fading]]
        torch.testing.assert_close(chain().history, torch.tensor(wanted))

    def test_both_ways_to_learn_find_the_way(self):
        how = plan.Learning(rounds=10, updates=50, batch=32, width=32)
        for method in (learn.learn_q, learn.learn_clone):
            with self.subTest(method.__name__):
                tr = chain()
                net = method(tr, 2, how, seed=0)
                scores = net(transitions.features(tr.autophase, tr.instcount, tr.history))
                self.assertEqual(scores[:2].argmax(dim=1).tolist(), [0, 0])

    def test_equal_seeds_learn_the_same(self):
        how = plan.Learning(rounds=2, updates=5, batch=8, width=8)
        one, two = (learn.learn_q(chain(), 2, how, seed=3).state_dict() for _ in range(2))
        for name, value in one.items():
            self.assertTrue(torch.equal(value, two[name]), name)


class Quick(unittest.TestCase):
    def test_the_quick_form(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, EXAMPLE / "main.py", folder, "--quick"]
            command += [] if torch else ["--baselines"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            results = json.loads((Path(folder) / "results.json").read_text())
            for picture in ("compilations.svg", "programs.svg"):
                self.assertIn("<svg", (Path(folder) / picture).read_text())
        self.assert_sound(results, done.stdout)

    def assert_sound(self, results, printed):
        plan, held_out = results["plan"], results["held_out"]
        self.assertEqual(set(results["traces"]), OTHERS | (LEARNED if torch else set()))
        self.assertEqual(len(held_out["programs"]) + len(held_out["leaked"]), plan["held_out"])
        self.assertEqual(held_out["leaked"], [])
        for name in set(results["traces"]) - {"a list by hand", "greedy search"}:
            by_seed = results["traces"][name]
            self.assertEqual(len(by_seed), plan["seeds"])
            for trace in sum(by_seed, []):
                self.assertLessEqual(len(trace), plan["budget"] + 1)
            row = results["summary"][name]
            self.assertLessEqual(row["low"], row["mean"])
            self.assertLessEqual(row["mean"], row["high"])
            self.assertIn(f"| {name} | {row['compilations']} | {row['mean']:.3f} |", printed)


if __name__ == "__main__":
    unittest.main()
