"""The transition graph of a lake, in Arrow and in networkx, and what a notebook shows of a lake."""

import html.parser
import importlib.util
import io
import pickle
import sys
import unittest
from unittest import mock

import steplake
from lakes import LakeCase, record_toy

HAS_NETWORKX = importlib.util.find_spec("networkx") is not None


class Graph(LakeCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        env = steplake.make("toy-v0")
        invert = env.action_space["invert"]
        with steplake.record(cls.lake.path, env) as recorded:
            for seed in [1, 5]:
                recorded.reset(options={"benchmark": f"generator://toy-v0/{seed}"})
                recorded.multistep([0, 1, 2, 3, 4, 5, 6, 0, 0])
            # This action fails here, and leads nowhere.
            recorded.reset(options={"benchmark": b"toy 65536 250"})
            recorded.multistep([0, 2, invert])
            recorded.reset(options={"benchmark": b"toy 65536 250"})
            recorded.step(invert)
        env.close()
        cls.lake.dedup()

    def rows(self, text, params=None):
        return self.lake.sql(text, params).fetchall()

    def test_the_whole_graph_has_every_state_and_every_transition(self):
        graph = self.lake.graph()
        nodes, edges = graph.nodes.to_arrow_table(), graph.edges.to_arrow_table()
        self.assertEqual(nodes.column_names, ["state_id", "steps", "benchmark", "visits", "Cost"])
        self.assertEqual(edges.column_names[:5], ["source", "target", "action", "name", "count"])
        self.assertEqual(
            edges.column_names[5:], ["reward_Cost", "reward_CostNorm", "reward_CostOz"]
        )
        states = {state for (state,) in self.rows("SELECT state_id FROM observations")}
        self.assertEqual(set(nodes["state_id"].to_pylist()), states)
        self.assertEqual(nodes.num_rows, len(states))
        wanted = "SELECT state_id, next_state_id, action, count, reward_Cost FROM state_transitions"
        names = ["source", "target", "action", "count", "reward_Cost"]
        found = zip(*(edges[name].to_pylist() for name in names), strict=True)
        self.assertEqual(sorted(found), sorted(self.rows(wanted)))
        # Each step, also the first one of an episode, led to a state, unless the compiler failed.
        self.assertEqual(
            sum(nodes["visits"].to_pylist()),
            self.rows("SELECT count(state_id) FROM steps")[0][0],
        )
        begins = [uri for uri in nodes["benchmark"].to_pylist() if uri]
        self.assertEqual(len(begins), 3)

    def test_the_graph_of_benchmarks(self):
        one, two = (f"generator://toy-v0/{seed}" for seed in (1, 5))
        nodes = {}
        for wanted in [one, two, (one, two), "generator://%"]:
            graph = self.lake.graph(wanted)
            nodes[wanted] = set(graph.nodes.to_arrow_table()["state_id"].to_pylist())
            edges = graph.edges.to_arrow_table()
            for end in ["source", "target"]:
                self.assertLessEqual(set(edges[end].to_pylist()), nodes[wanted])
            self.assertEqual(edges.num_rows, self.named_rows(wanted, nodes[wanted]))
        self.assertEqual(nodes[one, two], nodes[one] | nodes[two])
        self.assertEqual(nodes[one, two], nodes["generator://%"])
        self.assertLess(len(nodes[one]), len(nodes[one, two]))
        with self.assertRaisesRegex(steplake.NotInLake, "no benchmark like 'generator://toy-v0/9'"):
            self.lake.graph([one, "generator://toy-v0/9"])

    def named_rows(self, wanted, nodes):
        """The number of transitions of the named query, which takes one pattern."""
        if isinstance(wanted, str):
            answer = self.lake.query("transition_graph", benchmark=wanted)
            return answer.to_arrow_table().num_rows
        rows = self.rows("SELECT state_id FROM state_transitions")
        return sum(state in nodes for (state,) in rows)

    def test_the_graph_around_a_state(self):
        [(state,)] = self.rows(
            "SELECT initial_state_id FROM benchmarks WHERE benchmark_uri = ?",
            ["generator://toy-v0/1"],
        )
        for radius in [0, 1, 2]:
            graph = self.lake.graph(state=state, radius=radius)
            again = self.lake.graph(state=state.hex(), radius=radius)
            nodes = graph.nodes.to_arrow_table()
            self.assertEqual(nodes, again.nodes.to_arrow_table())
            wanted = self.lake.query("reachable", state=state.hex(), steps=radius)
            self.assertEqual(
                set(nodes["state_id"].to_pylist()),
                set(wanted.to_arrow_table()["state_id"].to_pylist()),
            )
            self.assertEqual(max(nodes["steps"].to_pylist()), radius)
            edges = graph.edges.to_arrow_table()
            for end in ["source", "target"]:
                self.assertLessEqual(
                    set(edges[end].to_pylist()), set(nodes["state_id"].to_pylist())
                )
        everything = self.lake.graph(state=state).nodes.to_arrow_table()
        self.assertGreater(everything.num_rows, nodes.num_rows)
        with self.assertRaises(steplake.NotInLake):
            self.lake.graph(state="00" * 20).nodes.fetchall()
        with self.assertRaises(steplake.UsageError):
            self.lake.graph(state="it's").nodes.fetchall()
        for wrong in [{"radius": 1}, {"state": state, "radius": -1}]:
            with self.assertRaisesRegex(steplake.UsageError, "`radius`"):
                self.lake.graph(**wrong)
        with self.assertRaisesRegex(steplake.UsageError, "give one of them"):
            self.lake.graph("%", state=state)

    def test_nothing_is_there_before_dedup(self):
        with record_toy(self.folder / "raw", episodes=1) as lake:
            with self.assertRaisesRegex(steplake.NotDeduplicated, "call `lake.dedup\\(\\)`"):
                lake.graph().edges.fetchall()

    @unittest.skipUnless(HAS_NETWORKX, "networkx is not installed")
    def test_networkx(self):
        import networkx

        graph = self.lake.graph()
        found = graph.to_networkx()
        self.assertIsInstance(found, networkx.MultiDiGraph)
        nodes, edges = graph.nodes.to_arrow_table(), graph.edges.to_arrow_table()
        self.assertEqual(found.number_of_nodes(), nodes.num_rows)
        self.assertEqual(found.number_of_edges(), edges.num_rows)
        row = edges.to_pylist()[0]
        edge = found.edges[row.pop("source").hex(), row.pop("target").hex(), row["action"]]
        self.assertEqual(edge, row)
        row = nodes.to_pylist()[0]
        self.assertEqual(found.nodes[row.pop("state_id").hex()], row)
        self.assertEqual(self.distances(networkx, found), self.steps(nodes))
        written = io.BytesIO()
        networkx.write_graphml(found, written)
        self.assertIn(b"generator://toy-v0/1", written.getvalue())

    def distances(self, networkx, graph):
        starts = [state for state, about in graph.nodes(data=True) if "benchmark" in about]
        return dict(networkx.multi_source_dijkstra_path_length(graph, set(starts), weight=None))

    def steps(self, nodes):
        rows = nodes.to_pylist()
        return {row["state_id"].hex(): row["steps"] for row in rows}

    def test_a_missing_package_is_named(self):
        with mock.patch.dict(sys.modules, networkx=None):
            with self.assertRaisesRegex(steplake.MissingPackage, r"pip install 'steplake\[graph\]'"):
                self.lake.graph().to_networkx()


class Page(html.parser.HTMLParser):
    """The elements and the text of a page; every element is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.elements.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


class Notebook(LakeCase):
    def test_a_lake_shows_what_there_is(self):
        page = Page(self.lake._repr_html_())
        self.assertEqual(page.open, [])
        self.assertLessEqual(
            page.elements, {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "pre"}
        )
        for text in ["toy-v0 (toy 1, any)", "steps", "33", "next(lake.iterate_episodes())"]:
            self.assertIn(text, "\n".join(page.text))
        for snapshot in [None, 2]:
            with steplake.open(self.lake.path, snapshot) as lake:
                self.assertIn("snapshot 2" if snapshot else "newest rows", lake._repr_html_())

    def test_what_it_says_to_try_works(self):
        [pre] = [text for text in Page(self.lake._repr_html_()).text if "lake.sql" in text]
        for line in pre.splitlines():
            self.assertTrue(repr(eval(line, {"lake": self.lake})))

    def test_names_are_no_markup(self):
        path = self.folder / "<script>&amp;"
        with record_toy(path, episodes=1) as lake:
            page = Page(lake._repr_html_())
            self.assertNotIn("script", page.elements)
            self.assertIn(str(path), page.text)

    def test_a_lake_that_is_gone_shows_its_text(self):
        lake = record_toy(self.folder / "gone", episodes=1)
        lake.close()
        (self.folder / "gone").rename(self.folder / "elsewhere")
        self.assertIsNone(lake._repr_html_())
        self.assertIn("steplake.open(", repr(lake))

    def test_a_lake_is_one_class_everywhere(self):
        self.assertIs(type(self.lake), steplake.Lake)
        self.assertIs(type(pickle.loads(pickle.dumps(self.lake))), steplake.Lake)
        with steplake.open(self.lake.path) as lake:
            self.assertIs(type(lake), steplake.Lake)


if __name__ == "__main__":
    unittest.main()
