"""Messages of the library name no option and no command: each front end adds its own advice."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import steplake
from lakes import record_toy

REPOSITORY = Path(__file__).parents[3]
#: The crates of the library.
CRATES = (
    "model sandbox programs env llvm gcc loops compilers lake campaign query load".split()
)
#: A text of Rust, which may go on in the next line.
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*|`--|`steplake ")
#: What makes a sentence, unlike the words of another program: two words in a row.
SENTENCE = re.compile(r"[a-z]{2,} [a-z]{2,}")
#: Commands that are to be typed: of another program, or those that make a file again.
COMMAND = re.compile(r"`sha256sum [^`]*`|^steplake replay .*")


def sources():
    """The files of the library."""
    for folder in ["src", *(f"crates/{name}/src" for name in CRATES)]:
        for path in (REPOSITORY / folder).rglob("*.rs"):
            name = path.relative_to(REPOSITORY).as_posix()
            if not name.startswith(("src/cli/", "src/console/")) and "test" not in name:
                yield name, path


def texts(path):
    """The texts of a file of the library, without its comments and tests."""
    code = path.read_text().partition("#[cfg(test)]\nmod tests {")[0]
    code = re.sub(r"^\s*//.*$", "", code, flags=re.MULTILINE).replace("'\"'", "")
    for found in TEXT.finditer(code):
        yield re.sub(r"\\\n\s*", "", found[1]).replace('\\"', '"')


class Wording(unittest.TestCase):
    def test_no_message_of_the_library_names_an_option(self):
        seen, left = 0, []
        for name, path in sources():
            for text in texts(path):
                said = COMMAND.sub("", text)
                seen += bool(SENTENCE.search(said))
                if SENTENCE.search(said) and OPTION.search(said):
                    left.append((name, text))
        self.assertEqual(left, [], "a `Remedy` has each front end say it in words of its own")
        self.assertGreater(seen, 500)

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
            self.assertIn("a shard requires a number of episodes", shard)
            self.assertIn("the argument is `episodes`", shard)
            objective = refused(steps=10, objective="Cost")
            self.assertIn("so it has no objective", objective)
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
        self.assertRegex(out.stderr, "^steplake: warning: .*another seed records others\n$")

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
            self.assertIn("a full dedup makes it anew", str(found))
            self.assertNotRegex(str(found), OPTION)


if __name__ == "__main__":
    unittest.main()
