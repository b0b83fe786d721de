"""networkx reads the GraphML that steplake exports, and finds in it what steplake says is there."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import networkx as nx


def steplake(*arguments, lake):
    command = [os.environ["STEPLAKE"], "--lake", str(lake), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stderr}"
    return done.stdout


class GraphML(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="steplake-graph-")
        cls.addClassCleanup(folder.cleanup)
        cls.lake = Path(folder.name) / "lake"
        steplake(
            *["generate", "--benchmark", "benchmark://steplake-v0/*", "--seed", "7"],
            *["--episodes", "60", "--episode-length", "12", "--jobs", "2"],
            lake=cls.lake,
        )
        steplake("seal", lake=cls.lake)
        steplake("dedup", lake=cls.lake)

    def sql(self, text):
        return json.loads(steplake("sql", text, "--format", "json", lake=self.lake))

    def read(self, *arguments):
        file = self.lake.parent / "graph.graphml"
        steplake("export", *arguments, "--output", str(file), lake=self.lake)
        return nx.read_graphml(file, force_multigraph=True)

    def test_every_transition_is_an_edge(self):
        graph = self.read("--format", "graphml")
        self.assertIsInstance(graph, nx.MultiDiGraph)
        rows = json.loads(
            steplake("query", "transition_graph", "--format", "json", lake=self.lake)
        )
        self.assertGreater(len(rows), 100)
        expected = {(row["state_id"], row["next_state_id"], row["action"]): row for row in rows}
        found = {(a, b, data["action"]): data for a, b, data in graph.edges(data=True)}
        self.assertEqual(found.keys(), expected.keys())
        self.assertEqual(len(rows), graph.number_of_edges())
        for edge, data in found.items():
            for name in ["name", "count", "reward_IrInstructionCountOz"]:
                self.assertEqual(data[name], expected[edge][name], edge)

    def test_every_state_is_a_node_with_its_cost_and_depth(self):
        graph = self.read()
        rows = self.sql("SELECT state_id, IrInstructionCount AS cost FROM observations")
        costs = {row["state_id"]: row["cost"] for row in rows}
        starts = {row["state_id"]: row["uri"] for row in self.sql(
            "SELECT initial_state_id AS state_id, benchmark_uri AS uri FROM benchmarks"
        )}
        self.assertTrue(starts.keys() <= set(graph.nodes))
        for state, data in graph.nodes(data=True):
            self.assertEqual(data["IrInstructionCount"], costs[state])
            self.assertEqual(data.get("benchmark"), starts.get(state))
        # networkx finds the same shortest ways.
        lengths = nx.multi_source_dijkstra_path_length(graph, set(starts), weight=None)
        depths = {state: data["steps"] for state, data in graph.nodes(data=True)}
        self.assertEqual(lengths, depths)

    def test_a_pattern_chooses_the_programs(self):
        whole, one = self.read(), self.read("--benchmark", "benchmark://steplake-v0/huffman")
        self.assertLess(one.number_of_nodes(), whole.number_of_nodes())
        named = [data["benchmark"] for _, data in one.nodes(data=True) if "benchmark" in data]
        self.assertEqual(named, ["benchmark://steplake-v0/huffman"])


if __name__ == "__main__":
    unittest.main()
