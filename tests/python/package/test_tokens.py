"""Tokens of programs and embeddings: observed, recorded, and answered from a lake."""

import tempfile
import unittest
from pathlib import Path

import numpy as np
import steplake

HUFFMAN = "benchmark://steplake-v0/huffman"
SPACES = ["LexedIr", "IR2Vec"]


def plain(tokens):
    """Tokens as lists of numbers and texts."""
    return {name: np.asarray(items).tolist() for name, items in tokens.items()}


class Tokens(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.lake = Path(folder.name) / "lake"
        self.env = steplake.make("llvm-v0", benchmark=HUFFMAN, observation_space="LexedIr")
        self.addCleanup(self.env.close)

    def test_what_is_observed_is_recorded(self):
        seen = {}
        with steplake.record(self.lake, self.env, observe=SPACES) as env:
            for name in [None, "mem2reg", "simplifycfg"]:
                if name is None:
                    tokens, info = env.reset()
                else:
                    tokens, _, _, _, info = env.step(env.action_space[name])
                self.assertTrue(env.observation_space.contains(tokens))
                embedding = env.observation["IR2Vec"]
                self.assertEqual((embedding.shape, embedding.dtype), ((75,), np.float64))
                seen[info["state_id"]] = (plain(tokens), embedding.tolist())
        self.assertEqual(len(seen), 3)
        lake = steplake.open(self.lake, progress=False)
        self.addCleanup(lake.close)
        rows = lake.sql('SELECT state_id, "LexedIr", "IR2Vec" FROM observations').to_arrow_table()
        recorded = {
            row["state_id"].hex(): (row["LexedIr"], row["IR2Vec"]) for row in rows.to_pylist()
        }
        self.assertEqual(recorded, seen)
        lake.dedup()
        with self.assertRaisesRegex(steplake.UsageError, "`LexedIr` has lists of any length"):
            lake.dataset("observations", ["LexedIr"])
        replayed = steplake.make("replay-v0", lake=self.lake, observation_space="LexedIr")
        self.addCleanup(replayed.close)
        tokens, info = replayed.reset(options={"benchmark": HUFFMAN})
        self.assertEqual(plain(tokens), seen[info["state_id"]][0])
        self.assertEqual(tokens["token_id"].dtype, np.int32)

    def test_embeddings_of_statements_are_a_matrix(self):
        names = ["Inst2vecPreprocessedText", "Inst2vecEmbeddingIndices", "Inst2vec"]
        seen = {}
        with steplake.record(self.lake, self.env, observe=names) as env:
            _, info = env.reset()
            texts, numbers, rows = (env.observation[name] for name in names)
            self.assertEqual((rows.shape, rows.dtype), ((len(texts), 200), np.float32))
            self.assertEqual((numbers.shape, numbers.dtype), ((len(texts),), np.int32))
            self.assertIn("br label <%ID>", texts)
            self.assertTrue(env.observation.spaces["Inst2vec"].contains(rows))
            same = [place for place, text in enumerate(texts) if text == "br label <%ID>"]
            np.testing.assert_array_equal(rows[same[0]], rows[same[1]])
            seen[info["state_id"]] = (texts, numbers.tolist(), rows.ravel().tolist())
            action = env.action_space["mem2reg"]
            observed, _, _, _, info = env.step(action, observation_spaces=names)
            self.assertEqual((observed[2].shape[1], observed[2].dtype), (200, np.float32))
            seen[info["state_id"]] = (*observed[:1], *(it.ravel().tolist() for it in observed[1:]))
            env.observation_space = "Inst2vec"
            observed, info = env.reset()
            np.testing.assert_array_equal(observed, rows)
        lake = steplake.open(self.lake, progress=False)
        self.addCleanup(lake.close)
        columns = ", ".join(f'"{name}"' for name in names)
        found = lake.sql(f"SELECT state_id, {columns} FROM observations").to_arrow_table()
        recorded = {
            row["state_id"].hex(): tuple(row[name] for name in names) for row in found.to_pylist()
        }
        self.assertEqual(recorded, seen)

    def test_a_space_holds_tokens_alone(self):
        space = self.env.observation_space
        tokens, _ = self.env.reset()
        self.assertEqual(space, steplake.spaces.Tokens())
        self.assertNotEqual(space, steplake.spaces.ProgramGraph())
        self.assertTrue(space.contains(tokens) and space.contains(space.sample()))
        self.assertFalse(space.contains({**tokens, "token_kind": tokens["token_kind"][1:]}))
        self.assertFalse(space.contains({**tokens, "token_id": tokens["token_kind"]}))
        self.assertFalse(space.contains(self.env.observation["Programl"]))
