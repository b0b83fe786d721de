"""Graphs of programs: observed, recorded, and as graphs of networkx."""

import json
import tempfile
import unittest
from pathlib import Path

import numpy as np
import steplake

HUFFMAN = "benchmark://steplake-v0/huffman"
NODES = ["node_type", "node_text", "node_function", "node_block"]
EDGES = ["edge_flow", "edge_position"]


def plain(graph):
    """A graph as lists of numbers and texts."""
    return {name: np.asarray(items).tolist() for name, items in graph.items()}


def parts(graphs, texts):
    """The graphs of a batch, each as the lake has it."""
    found = []
    for number, (begin, end) in enumerate(zip(graphs["ptr"][:-1], graphs["ptr"][1:], strict=True)):
        of_nodes = graphs["batch"] == number
        assert (
            of_nodes == ((np.arange(len(of_nodes)) >= begin) & (np.arange(len(of_nodes)) < end))
        ).all()
        source, target = graphs["edge_index"]
        of_edges = graphs["batch"][source] == number
        graph = {name: graphs[name][of_nodes].tolist() for name in NODES}
        graph |= {name: graphs[name][of_edges].tolist() for name in EDGES}
        graph["node_text"] = [texts[text] for text in graph["node_text"]]
        graph["edge_source"] = (source[of_edges] - begin).tolist()
        graph["edge_target"] = (target[of_edges] - begin).tolist()
        found.append(graph)
    return found


class ProgramGraphs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.lake = Path(folder.name) / "lake"
        self.env = steplake.make("llvm-v0", benchmark=HUFFMAN, observation_space="Programl")
        self.addCleanup(self.env.close)

    def test_what_is_observed_is_recorded(self):
        seen = {}
        with steplake.record(self.lake, self.env, observe=["Programl"]) as env:
            for name in [None, "mem2reg", "simplifycfg", "gvn"]:
                if name is None:
                    graph, info = env.reset()
                else:
                    graph, _, _, _, info = env.step(env.action_space[name])
                self.assertTrue(env.observation_space.contains(graph))
                seen[info["state_id"]] = plain(graph)
        self.assertEqual(len(seen), 4)
        lake = steplake.open(self.lake, progress=False)
        self.addCleanup(lake.close)
        rows = lake.sql('SELECT state_id, "Programl" FROM observations').to_arrow_table()
        recorded = {row["state_id"].hex(): row["Programl"] for row in rows.to_pylist()}
        self.assertEqual(recorded, seen)
        lake.dedup()
        replayed = steplake.make("replay-v0", lake=self.lake, observation_space="Programl")
        self.addCleanup(replayed.close)
        graph, info = replayed.reset(options={"benchmark": HUFFMAN})
        self.assertEqual(plain(graph), seen[info["state_id"]])
        self.assertEqual(graph["edge_source"].dtype, np.int32)

    def record(self, observe=("Programl",)):
        """Record two episodes, and open the lake."""
        with steplake.record(self.lake, self.env, observe=list(observe)) as env:
            for names in [("mem2reg", "simplifycfg", "gvn"), ("sroa", "gvn", "instcombine")]:
                env.reset()
                for name in names:
                    env.step(env.action_space[name])
        lake = steplake.open(self.lake, progress=False)
        self.addCleanup(lake.close)
        lake.dedup()
        return lake

    def test_batches_have_the_recorded_graphs(self):
        lake = self.record()
        answer = lake.sql('SELECT state_id, "Programl" FROM observations').to_arrow_table()
        wanted = {row["state_id"]: row["Programl"] for row in answer.to_pylist()}
        columns = ["state_id", "Programl", "action", "next_state_id", "next_Programl"]
        rows = lake.dataset("state_transitions", columns).shuffle(seed=1)
        self.assertEqual(rows.features["Programl"], "graph")
        [batch] = rows.loader(len(rows))
        texts = {name: rows.node_texts(name) for name in ["Programl", "next_Programl"]}
        for prefix in ["", "next_"]:
            states = [state.tobytes() for state in batch[prefix + "state_id"]]
            name = prefix + "Programl"
            found = parts(batch[name], texts[name])
            self.assertEqual(found, [wanted[state] for state in states])
        # A batch of rows one by one.
        alone = rows[2]["Programl"]
        self.assertEqual(
            parts(alone, texts["Programl"]), [parts(batch["Programl"], texts["Programl"])[2]]
        )
        self.assertEqual(rows[[1, 0]]["action"].tolist(), batch["action"][[1, 0]].tolist())
        self.assertEqual(len(list(rows)), len(rows))

    def test_graphs_that_were_backfilled_are_those_that_a_run_records(self):
        lake = self.record(observe=["Autophase"])
        columns = ["state_id", "action", "Programl"]
        with self.assertRaises(steplake.NotInLake):
            lake.dataset("state_transitions", columns)
        lake.backfill(["Programl"])
        [backfilled] = lake.dataset("state_transitions", columns).loader(100)
        self.lake = self.lake.with_name("recorded")
        [recorded] = self.record().dataset("state_transitions", columns).loader(100)
        self.assertEqual(plain(backfilled.pop("Programl")), plain(recorded.pop("Programl")))
        self.assertEqual(plain(backfilled), plain(recorded))

    def test_a_row_without_a_graph_is_an_error(self):
        lake = self.record()
        lake.close()
        with steplake.record(self.lake, self.env, observe=[]) as env:
            env.reset()
            env.step(env.action_space["adce"])
        lake = steplake.open(self.lake, progress=False)
        self.addCleanup(lake.close)
        lake.dedup()
        with self.assertRaisesRegex(steplake.UsageError, "`Programl` has no value in 1 of"):
            lake.dataset("observations", "Programl")[:]
        some = lake.dataset("observations", "Programl").filter('"Programl" IS NOT NULL')
        graphs = some[:]["Programl"]
        self.assertEqual(len(graphs["ptr"]), len(some) + 1)

    def test_a_space_holds_graphs_alone(self):
        space = self.env.observation_space
        graph, _ = self.env.reset()
        self.assertTrue(space.contains(space.sample()))
        self.assertFalse(space.contains({}))
        self.assertFalse(space.contains({**graph, "edge_flow": graph["edge_flow"][:-1]}))
        self.assertFalse(space.contains({**graph, "node_text": [1] * len(graph["node_text"])}))
        self.assertFalse(space.contains({**graph, "node_type": graph["node_block"]}))
        self.assertEqual(space, steplake.spaces.ProgramGraph())

    def test_networkx_has_every_node_and_edge(self):
        graph, _ = self.env.reset()
        made = steplake.spaces.program_graph_to_networkx(graph)
        again = steplake.spaces.program_graph_to_networkx(plain(graph))
        self.assertEqual(list(made.edges(data=True)), list(again.edges(data=True)))
        texts = [made.nodes[number]["text"] for number in made]
        self.assertEqual(texts, graph["node_text"])
        flows = sorted(flow for _, _, flow in made.edges(data="flow"))
        self.assertEqual(flows, sorted(graph["edge_flow"]))

    def test_node_link_data_is_the_same_graph(self):
        import networkx

        graph, _ = self.env.reset()
        made = steplake.spaces.program_graph_to_networkx(graph)
        data = json.loads(self.env.observation["ProgramlJson"])
        parsed = networkx.node_link_graph(data, edges="links")
        self.assertEqual(list(parsed.nodes(data=True)), list(made.nodes(data=True)))
        edges = [found.edges(keys=True, data=True) for found in (parsed, made)]
        self.assertEqual(list(edges[0]), list(edges[1]))
        self.assertIsInstance(parsed, networkx.MultiDiGraph)
