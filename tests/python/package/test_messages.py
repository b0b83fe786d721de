"""Messages name arguments and methods of the package, and no option of the command line."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import steplake
from lakes import record_toy
from steplake import _steplake

SOURCES = Path(__file__).parents[3] / "src"
#: What the command line alone says, and what runs other programs, whose options these are.
ELSEWHERE = (
    "assembly/command_error.rs assembly/how_run.rs assembly/lake_info.rs assembly/leaderboard "
    "assembly/optimization assembly/other_tools.rs assembly/services.rs assembly/training.rs "
    "cli console "
    "datasets/bench datasets/clang.rs datasets/clang_flags.rs datasets/debian datasets/generator.rs "
    "datasets/published env/gcc env/llvm execution leaderboard sandbox semantics transfer"
).split()
#: A text of Rust, which may go on in the next line.
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
#: Commands that no method does: with their options, they are to be typed into a shell.
COMMAND = re.compile(r"`steplake (retract|merge|expire|gc) [^`]*`")


def texts(path):
    """The texts of a file of the library, without its comments and tests."""
    code = path.read_text().partition("#[cfg(test)]\nmod tests {")[0]
    code = re.sub(r"^\s*//.*$", "", code, flags=re.MULTILINE)
    for found in TEXT.finditer(code):
        yield re.sub(r"\\\n\s*", "", found[1]).replace('\\"', '"')


class Wording(unittest.TestCase):
    def test_no_message_of_the_library_names_an_option(self):
        said, left = 0, []
        for path in SOURCES.rglob("*.rs"):
            name = path.relative_to(SOURCES).as_posix()
            if name.startswith(tuple(ELSEWHERE)) or "test" in name:
                continue
            for text in texts(path):
                said += bool(OPTION.search(text))
                if OPTION.search(COMMAND.sub("", _steplake.in_python(text))):
                    left.append((name, text))
        self.assertEqual(left, [], "crates/python/src/wording.rs says what they are in Python")
        self.assertGreater(said, 15)

    def test_commands_are_methods(self):
        for said, here in [
            ("run `steplake dedup`", "run `lake.dedup()`"),
            ("`steplake dedup --full` makes it anew", "`lake.dedup(full=True)` makes it anew"),
            (
                "`steplake backfill --space Programl` and `steplake backfill --space Ir`",
                '`lake.backfill("Programl")` and `lake.backfill("Ir")`',
            ),
            ("(`steplake query failed_starts` says)", '(`lake.query("failed_starts")` says)'),
            ("`--by program` divides", '`by="program"` divides'),
            ("leave out --resume", "leave out `resume`"),
            ("give workers less by --worker-memory-mib", "give workers less by `worker_memory_mib`"),
            ("--seed (--steps) '--states'", "`seed` (`steps`) '`states`'"),
            # What is not the package's own stays as it is.
            ("gcc: --param=max-slsr-cand-scan=7", "gcc: --param=max-slsr-cand-scan=7"),
            ("`steplake merge` merges them", "`steplake merge` merges them"),
            ("/data/my--lake/x is busy", "/data/my--lake/x is busy"),
            ("/data/--lake/--seed.csv", "/data/--lake/--seed.csv"),
            ("SELECT 1--seed", "SELECT 1--seed"),
            ("a flag --seed-of-mine", "a flag --seed-of-mine"),
        ]:
            self.assertEqual(_steplake.in_python(said), here)

    def test_arguments_of_a_run(self):
        with tempfile.TemporaryDirectory() as folder:

            def refused(**options):
                with self.assertRaises(steplake.UsageError) as caught:
                    steplake.generate(
                        Path(folder, "lake"),
                        "generator://toy-v0/0..3",
                        environment="toy-v0",
                        **options,
                    )
                return str(caught.exception)

            shard = refused(steps=10, shard="0/2")
            self.assertIn("`shard` requires `episodes`", shard)
            objective = refused(steps=10, objective="Cost")
            self.assertIn("so it has no `objective`", objective)
            for text in [shard, objective]:
                self.assertNotRegex(text, OPTION)

    def test_warnings(self):
        code = """
import sys, steplake
for _ in range(2):
    steplake.generate(
        sys.argv[1], "generator://toy-v0/0", environment="toy-v0", episodes=2, progress=False
    )
"""
        with tempfile.TemporaryDirectory() as folder:
            line = [sys.executable, "-c", code, str(Path(folder) / "lake")]
            out = subprocess.run(line, capture_output=True, text=True)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertRegex(out.stderr, "^steplake: warning: .*another `seed` records others\n$")

    def test_what_a_check_found(self):
        with tempfile.TemporaryDirectory() as folder:
            lake = record_toy(Path(folder) / "lake")
            lake.dedup()
            files = [*Path(folder).rglob("*.parquet")]
            table = next(path for path in files if "state_transitions" in path.as_posix())
            table.chmod(0o644)
            table.write_bytes(b"damaged")
            with lake:
                found = lake.verify()
            self.assertFalse(found)
            self.assertIn("`lake.dedup(full=True)` makes it anew", str(found))
            self.assertNotRegex(str(found), OPTION)


if __name__ == "__main__":
    unittest.main()
