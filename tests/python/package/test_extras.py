"""What a bare install can do, and what a message says of the packages that it lacks."""

import importlib.metadata
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import steplake
from lakes import record_toy
from steplake import _optional

PAGE = Path(__file__).parents[3] / "docs" / "PYTHON.md"
# The packages of extras, but those that the package itself needs.
ABSENT = sorted({name for names in _optional.EXTRAS.values() for name in names})

BARE = """
import sys

class Absent:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Absent())
import steplake
lake = steplake.open({lake!r}, progress=False)
"""


def in_a_bare_install(lake, code):
    """What code prints where no package of an extra is installed."""
    begin = BARE.format(absent=ABSENT, lake=str(lake))
    line = [sys.executable, "-c", begin + textwrap.dedent(code)]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout


class Bare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.path = Path(cls._folder.name) / "lake"
        with record_toy(cls.path) as lake:
            lake.dedup()

    @classmethod
    def tearDownClass(cls):
        cls._folder.cleanup()

    def test_rows_for_training_need_numpy_alone(self):
        code = """
            for table in ["state_transitions", "steps", "observations"]:
                rows = lake.dataset(table)
                batches = list(rows.shuffle(seed=1).loader(4))
                print(table, rows.column_names, sum(len(batch["Bits"]) for batch in batches) == len(rows))
            parts = lake.dataset("state_transitions").train_test_split(by="row")
            print(len(parts["train"]) > len(parts["test"]) > 0)
        """
        steps = ["Bits", "action", "reward_Cost", "next_Bits"]
        wanted = [
            f"state_transitions {steps} True",
            f"steps {[*steps, 'terminated', 'truncated']} True",
            "observations ['Bits'] True",
            "True",
        ]
        self.assertEqual(in_a_bare_install(self.path, code).splitlines(), wanted)

    def test_every_message_names_its_extra(self):
        calls = {
            "answer.to_arrow_table()": "arrow",
            "answer.to_arrow_reader()": "arrow",
            "answer.pl()": "polars",
            "answer.df()": "pandas",
            "answer.torch()": "torch",
            "lake.iterate_episodes()": "arrow",
            "lake.sample_episodes(1)": "arrow",
            "lake.filter_episodes('true')": "arrow",
            "lake.to_minari('some-v0')": "arrow",
            "lake.graph().to_networkx()": "graph",
            "lake.dataset('steps').with_format('torch')": "torch",
            "steplake.spaces.program_graph_to_networkx({})": "graph",
        }
        code = f"""
            answer = lake.sql("SELECT action FROM actions")
            for call in {list(calls)!r}:
                try:
                    eval(call)
                except steplake.MissingPackage as error:
                    print(call, error, sep=": ")
        """
        said = in_a_bare_install(self.path, code).splitlines()
        for (call, extra), line in zip(calls.items(), said, strict=True):
            pattern = rf"{re.escape(call)}: .* needs the package \w+: `pip install 'steplake\[{extra}\]'` \("
            self.assertRegex(line, pattern)

    def test_an_environment_and_answers_need_no_extra(self):
        code = """
            env = lake.recover_environment(0 + lake.sql("SELECT min(episode_id) FROM steps").fetchone()[0])
            print(env.reset()[0].shape, len(lake.sql("SELECT * FROM steps")))
            print(steplake.__version__)
        """
        wanted = ["(16,) 33", importlib.metadata.version("steplake")]
        self.assertEqual(in_a_bare_install(self.path, code).splitlines(), wanted)


class Table(unittest.TestCase):
    def test_the_extras_are_those_of_the_package(self):
        declared = importlib.metadata.metadata("steplake").get_all("Provides-Extra")
        self.assertEqual(sorted(_optional.EXTRAS), sorted(declared))
        distributions = {"PIL": "pillow"}
        required = importlib.metadata.requires("steplake")
        for extra, names in _optional.EXTRAS.items():
            own = {
                re.match(r"[\w.-]+", one)[0].lower()
                for one in required
                if re.search(rf"""extra == ['"]{extra}['"]""", one)
            }
            brought = {"minari": {"pyarrow"}}.get(extra, set())
            wanted = {distributions.get(name, name) for name in names}
            self.assertEqual(own | brought, wanted, extra)

    def test_the_page_lists_them(self):
        text = PAGE.read_text()
        listed = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, flags=re.MULTILINE)
        table = {extra: set(packages.strip().split(", ")) for extra, packages in listed}
        for extra, names in _optional.EXTRAS.items():
            wanted = {"Pillow" if name == "PIL" else name for name in names}
            self.assertEqual(table.get(extra), wanted, extra)


class Version(unittest.TestCase):
    def test_the_package_says_its_version(self):
        self.assertEqual(steplake.__version__, importlib.metadata.version("steplake"))


if __name__ == "__main__":
    unittest.main()
