"""Graphs of programs: observed, recorded, and as graphs of networkx."""

import tempfile
import unittest
from pathlib import Path

import numpy as np
import steplake

HUFFMAN = "benchmark://steplake-v0/huffman"


def plain(graph):
    """A graph as lists of numbers and texts."""
    return {name: np.asarray(items).tolist() for name, items in graph.items()}


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
        rows = lake.sql("SELECT state_id, \"Programl\" FROM observations").to_arrow_table()
        recorded = {row["state_id"].hex(): row["Programl"] for row in rows.to_pylist()}
        self.assertEqual(recorded, seen)
        lake.dedup()
        replayed = steplake.make("replay-v0", lake=self.lake, observation_space="Programl")
        self.addCleanup(replayed.close)
        graph, info = replayed.reset(options={"benchmark": HUFFMAN})
        self.assertEqual(plain(graph), seen[info["state_id"]])
        self.assertEqual(graph["edge_source"].dtype, np.int32)

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
