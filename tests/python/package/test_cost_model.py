"""The example `examples/cost_model`: its parts by themselves, and its quick form as a whole.

`TORCH=yes scripts/test-python.sh` installs PyTorch. Without it, the networks are left out, here and
in the quick form: it records, splits, and judges all other contenders.
"""

import dataclasses
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import steplake

EXAMPLE = Path(__file__).parents[3] / "examples" / "cost_model"
TARGETS = {"count", "reward", "reward, changed", "best"}
NETWORKS = {"network without messages", "network"}


def is_ours(module):
    """Whether a module is one of the example's."""
    return str(getattr(module, "__file__", None)).startswith(f"{EXAMPLE}/")


try:
    import torch
except ImportError:
    torch = None

sys.path.insert(0, str(EXAMPLE))
import baselines  # noqa: E402
import examples  # noqa: E402
import graphs  # noqa: E402
import plan  # noqa: E402
import report  # noqa: E402
import split  # noqa: E402

if torch:
    import batching
    import learn
    import network

# Other examples have modules of the same names.
sys.path.remove(str(EXAMPLE))
for name in [name for name, module in sys.modules.items() if is_ours(module)]:
    del sys.modules[name]


def some_graph(dice, nodes=9, edges=14):
    """A random graph with all kinds of nodes and edges."""
    return graphs.Graph(
        dice.integers(graphs.NODE_TYPES, size=nodes).astype(np.int8),
        dice.integers(5, size=nodes).astype(np.int32),
        dice.integers(nodes, size=(2, edges)).astype(np.int32),
        dice.integers(graphs.FLOWS, size=edges).astype(np.int8),
        dice.integers(4, size=edges).astype(np.int8),
    )


def renumbered(graph, order):
    """The same graph with its nodes in another order, and its edges too."""
    place = np.argsort(order)
    return graphs.Graph(
        graph.node_type[order],
        graph.node_text[order],
        place[graph.edge_index][:, ::-1],
        graph.edge_flow[::-1],
        graph.edge_position[::-1],
    )


def some_model(steps):
    torch.manual_seed(4)
    return network.CostModel(5, 3, width=8, graph_width=16, steps=steps, dropout=0.0).eval()


def outputs(model, some):
    """What a model says of graphs, and of each one with each action."""
    state = torch.arange(len(some)).repeat_interleave(3)
    with torch.no_grad():
        return model(batching.collate(some), state, torch.arange(3).repeat(len(some)))


def some_example(dice, program):
    """A state with a random graph. What an action saves depends on its nodes."""
    graph = some_graph(dice)
    count = int((graph.node_type == graphs.INSTRUCTION).sum()) + 1
    reward = np.array([0, count / 20, -count / 10], np.float32)
    return examples.Example(
        program,
        program,
        graph,
        dice.integers(9, size=56),
        count - 1,
        count,
        np.arange(3),
        reward,
        reward != 0,
        count / 20,
    )


class Parts(unittest.TestCase):
    def setUp(self):
        self.dice = np.random.default_rng(7)

    def test_batches_hold_every_graph_once_within_the_bound(self):
        sizes = [5, 1, 9, 30, 2, 8]
        parts = graphs.batches(sizes, 10, [3, 0, 1, 5, 4, 2])
        self.assertEqual(parts, [[3], [0, 1], [5, 4], [2]])

    def test_a_text_of_one_program_is_unknown(self):
        vocabulary = graphs.Vocabulary([{"add", "i32"}, {"add", "i32"}, {"[7 x i3]"}])
        numbers = vocabulary.numbers(["i32", "[7 x i3]", "new", "add"])
        self.assertEqual(numbers.tolist(), [2, 0, 0, 1])
        self.assertEqual(len(vocabulary), 3)

    def test_the_best_cost_within_some_steps(self):
        source, target = np.array([0, 1, 2, 2]), np.array([1, 2, 3, 0])
        cost = np.array([9.0, 7.0, 8.0, 1.0])
        costs = examples.Costs({}, cost, source, np.zeros(4, int), target, np.zeros(4))
        reached = [[9, 7, 8, 1], [7, 7, 1, 1], [7, 1, 1, 1], [1, 1, 1, 1]]
        for steps, wanted in enumerate(reached):
            self.assertEqual(costs.best_within(steps).tolist(), wanted)
        self.assertEqual([places.tolist() for places in costs.pairs_of()], [[0], [1], [2, 3], []])

    def test_measures_are_over_the_mean_predictor(self):
        test = [some_example(self.dice, program) for program in "aabbc"]
        exact = examples.Predictions(
            baselines.counts(test), baselines.rewards(test), baselines.bests(test)
        )
        mean = baselines.constant(test, test)
        contenders = {report.MEAN: [mean], report.WITH: [exact, mean]}
        for target, rows in report.summarise(contenders, test).items():
            with self.subTest(target):
                half = rows[report.MEAN]["value"] / 2
                self.assertAlmostEqual(rows[report.WITH]["value"], half)
                self.assertAlmostEqual(rows[report.WITH]["by_seed"][0], 0)
                self.assertLessEqual(rows[report.WITH]["low"], half)
                if target != "count":
                    self.assertAlmostEqual(half, 0.5)
        self.assertLess(report.summarise(contenders, test, "c")["best"][report.MEAN]["low"], 1.01)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Networks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)

    def setUp(self):
        self.dice = np.random.default_rng(7)

    def test_a_batch_is_several_graphs_side_by_side(self):
        one, two = some_graph(self.dice, 4, 5), some_graph(self.dice, 3, 2)
        batch = batching.collate([one, two])
        self.assertEqual(batch.batch.tolist(), [0, 0, 0, 0, 1, 1, 1])
        self.assertEqual(batch.num_graphs, 2)
        ends = torch.from_numpy(np.concatenate([one.edge_index, two.edge_index + 4], 1)).long()
        self.assertTrue(torch.equal(batch.edge_index, torch.cat([ends, ends.flip(0)], 1)))
        flow = torch.from_numpy(np.concatenate([one.edge_flow, two.edge_flow])).long()
        self.assertTrue(torch.equal(batch.edge_kind, torch.cat([flow, flow + graphs.FLOWS])))
        self.assertEqual(len(batch.edge_position), len(batch.edge_kind))

    def test_what_a_graph_is_batched_with_does_not_matter(self):
        model, some = some_model(steps=3), [some_graph(self.dice, n) for n in (4, 9, 6)]
        together = outputs(model, some)
        for place, graph in enumerate(some):
            alone = outputs(model, [graph])
            torch.testing.assert_close(together.count[place], alone.count[0])
            torch.testing.assert_close(together.reward[3 * place : 3 * place + 3], alone.reward)
            torch.testing.assert_close(together.best[place], alone.best[0])

    def test_the_order_of_nodes_and_edges_does_not_matter(self):
        graph = some_graph(self.dice)
        other = renumbered(graph, self.dice.permutation(len(graph.node_type)))
        for steps in (0, 4):
            both = [outputs(some_model(steps), [g]) for g in (graph, other)]
            for one, two in zip(*both, strict=True):
                torch.testing.assert_close(one, two)

    def test_only_message_passing_sees_edges(self):
        graph = some_graph(self.dice)
        changes = {
            "ends": {"edge_index": np.roll(graph.edge_index, 1, 1)},
            "direction": {"edge_index": graph.edge_index[::-1]},
            "flow": {"edge_flow": (graph.edge_flow + 1) % graphs.FLOWS},
            "position": {"edge_position": graph.edge_position + 1},
        }
        for what, change in changes.items():
            other = dataclasses.replace(graph, **change)
            for steps, is_equal in [(0, True), (2, False)]:
                with self.subTest(what, steps=steps):
                    model = some_model(steps)
                    one, two = (outputs(model, [g]).count.item() for g in (graph, other))
                    self.assertEqual(one == two, is_equal)

    def test_a_message_goes_one_edge_a_step(self):
        line = graphs.Graph(
            np.zeros(4, np.int8),
            np.zeros(4, np.int32),
            np.array([[0, 1, 2], [1, 2, 3]]),
            np.zeros(3, np.int8),
            np.zeros(3, np.int8),
        )
        other = dataclasses.replace(line, node_text=np.array([1, 0, 0, 0]))
        for steps in range(4):
            model = some_model(steps)
            with torch.no_grad():
                one, two = (model.embed(batching.collate([g])) for g in (line, other))
            heard = [not torch.equal(a, b) for a, b in zip(one, two, strict=True)]
            self.assertEqual(heard, [place <= steps for place in range(4)])

    def test_equal_seeds_learn_the_same_and_the_loss_falls(self):
        some = [some_example(self.dice, str(number)) for number in range(12)]
        how = plan.Learning(epochs=40, batch_nodes=40, width=8, steps=2, dropout=0.0)
        (one, losses), (two, _) = (learn.train(some, 5, 3, how, seed=3) for _ in range(2))
        self.assertLess(losses[-1], losses[0] / 2)
        for name, value in one.state_dict().items():
            self.assertTrue(torch.equal(value, two.state_dict()[name]), name)


class Quick(unittest.TestCase):
    def test_the_quick_form(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, EXAMPLE / "main.py", folder, "--quick", "--seeds", "0", "1"]
            command += [] if torch else ["--baselines"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            results = json.loads((Path(folder) / "results.json").read_text())
            for picture in ("errors.svg", *(["losses.svg"] if torch else [])):
                self.assertIn("<svg", (Path(folder) / picture).read_text())
            self.assertTrue((Path(folder) / "predictions.png").exists())
            self.assert_split(Path(folder) / "lake", results)
        self.assert_sound(results, done.stdout)

    def assert_split(self, path, results):
        with steplake.open(path, progress=False) as lake:
            self.assert_best_costs(lake)
            parts = split.split(lake, results["plan"]["held_out"], results["plan"]["split_seed"])
            tuning = split.split(lake, 0.3, results["plan"]["split_seed"], tuning=True)
        self.assertEqual(parts.train & parts.test, set())
        self.assertEqual(parts.report, results["split"]["by_program"])
        self.assertEqual(tuning.train & tuning.test, set())

    def assert_best_costs(self, lake):
        """Without the bound, they are those of the lake."""
        costs = examples.load_costs(lake)
        best = costs.best_within(len(costs.cost))
        rows = lake.sql("""
            SELECT encode(state_id, 'hex'), best_cost FROM best_cost('IrInstructionCount')
        """).fetchall()
        self.assertEqual(len(rows), len(best))
        for state, cost in rows:
            self.assertEqual(best[costs.number[state]], cost)

    def assert_sound(self, results, printed):
        self.assertEqual(results["split"]["by_program"]["leaked_states"], 0)
        self.assertGreater(results["split"]["by_random_rows"]["leaked_states"], 0)
        self.assertEqual(set(results["summary"]), TARGETS)
        learned = {"boosted trees"} | (NETWORKS if torch else set())
        self.assertLess(results["summary"]["count"]["counting the nodes"]["value"], 0.1)
        for target, rows in results["summary"].items():
            self.assertLessEqual(learned, set(rows), target)
            for name in learned:
                row = rows[name]
                self.assertEqual(len(row["by_seed"]), 2 if name in NETWORKS else 1)
                self.assertLessEqual(row["low"], row["high"])
                self.assertIn(f"| {name} | {row['value']:.3f} |", printed)
        self.assertEqual(results["sizes"]["test"]["programs"], len(results["held_out"]))


if __name__ == "__main__":
    unittest.main()
