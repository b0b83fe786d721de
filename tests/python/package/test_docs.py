"""The docstrings: each example does what it says, and the reference shows every public name."""

import doctest
import html.parser
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import steplake

REPOSITORY = Path(__file__).parents[3]
HUFFMAN = "benchmark://steplake-v0/huffman"
# An answer is drawn with an empty line at its end.
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Every episode applies all of these; action 3 is one of them.
PASSES = ["mem2reg", "instcombine", "simplifycfg", "gvn", "sroa", "dce"]


def modules():
    """The modules of the package, with the compiled one."""
    names = [one.name for one in pkgutil.walk_packages(steplake.__path__, "steplake.")]
    if importlib.util.find_spec("torch") is None:
        names.remove("steplake._torch")
    return [steplake, *map(importlib.import_module, names)]


def documented(owner, name):
    """What has a docstring of its own, by name: a module or a class, and what it defines.

    `doctest.DocTestFinder` passes over the properties and static methods of compiled classes.
    """
    yield name, owner.__doc__
    for key, value in vars(owner).items():
        value = getattr(value, "__func__", value)
        home = getattr(value, "__module__", None)
        if inspect.ismodule(owner) and home != owner.__name__:
            continue
        if inspect.isclass(value):
            yield from documented(value, f"{home}.{value.__qualname__}")
        elif inspect.isroutine(value) or inspect.isdatadescriptor(value):
            yield f"{name}.{key}", value.__doc__


def examples():
    """The examples of each docstring that has any."""
    parser = doctest.DocTestParser()
    for module in modules():
        for name, text in documented(module, module.__name__):
            test = parser.get_doctest(inspect.cleandoc(text or ""), {}, name, None, 0)
            if test.examples:
                yield test


def written_examples():
    """The number of examples in the sources."""
    python = REPOSITORY.glob("crates/python/python/steplake/**/*.py")
    rust = REPOSITORY.glob("crates/python/src/**/*.rs")
    lines = [line for path in [*python, *rust] for line in path.read_text().splitlines()]
    return sum(bool(re.match(r"\s*(/// )?>>> ", line)) for line in lines)


class Examples(unittest.TestCase):
    """Examples may use `lake`, which is small and deduplicated, and `env`, at its first state."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, Path.cwd())
        os.chdir(folder.name)
        self.env = steplake.make("llvm-v0", benchmark=HUFFMAN)
        self.addCleanup(self.env.close)
        numbers = [3, *(self.env.action_space[name] for name in PASSES)]
        with steplake.record("lake", self.env, policy="cycle", seed=7) as env:
            for first in range(12):
                env.reset()
                env.multistep(numbers[first % 7 :] + numbers[: first % 7])
        self.lake = steplake.open("lake", progress=False)
        self.addCleanup(self.lake.close)
        self.lake.dedup()

    def test_every_example_of_a_docstring(self):
        runner = doctest.DocTestRunner(optionflags=FLAGS)
        for test in examples():
            self.env.reset()
            test.globs.update(steplake=steplake, lake=self.lake, env=self.env)
            for example in test.examples:
                # What is not run becomes wrong.
                example.options.pop(doctest.SKIP, None)
            runner.run(test)
        failed, tried = runner.summarize(verbose=False)
        self.assertEqual(failed, 0, "see what is printed above")
        self.assertEqual(tried, written_examples(), "the installed package is another one")


class Stub(unittest.TestCase):
    def test_it_has_the_docstrings_of_the_module(self):
        line = [sys.executable, REPOSITORY / "scripts" / "stub.py"]
        wanted = subprocess.run(line, capture_output=True, text=True, check=True).stdout
        path = REPOSITORY / "crates/python/python/steplake/_steplake.pyi"
        self.assertEqual(path.read_text(), wanted, "`scripts/stub.py --write` writes it")
        self.assertIn('"""Ask a question in SQL.', wanted)


class Page(html.parser.HTMLParser):
    """A page of the reference: what it shows, and what a browser loads for it."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.loaded = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.add(given.get("id"))
        self.loaded += [given["src"]] if given.get("src") else []
        self.loaded += [given["href"]] if tag == "link" else []


class Reference(unittest.TestCase):
    def test_it_shows_every_public_name_and_loads_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            built = subprocess.run(
                [sys.executable, REPOSITORY / "scripts" / "reference.py", folder],
                capture_output=True,
                text=True,
            )
            self.assertEqual((built.returncode, built.stderr), (0, ""))
            texts = {path.name: path.read_text() for path in Path(folder).rglob("*.html")}
        pages = {name: Page(text) for name, text in texts.items()}
        self.assertEqual(set(steplake.__all__) - pages["steplake.html"].ids, set())
        for name in ["Lake.sql", "Lake.tables", "Answer.torch", "record.__init__"]:
            self.assertIn(name, pages["steplake.html"].ids)
        self.assertIn("CompilerEnv.step", pages["env.html"].ids)
        # The stubs say what a compiled method returns.
        shown = texts["steplake.html"].partition('id="Answer.fetchone"')[2][:900]
        self.assertIn("tuple[typing.Any, ...] | None:", re.sub(r"<[^>]*>", "", shown))
        for name, text in texts.items():
            loaded = [one for one in pages[name].loaded if not one.startswith("data:")]
            self.assertEqual(loaded, [], name)
            found = re.search(r"@import|url\(['\"]?https?:|\.src = \"https?:", text)
            self.assertIsNone(found, name)


if __name__ == "__main__":
    unittest.main()
