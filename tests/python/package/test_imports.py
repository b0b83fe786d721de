"""The modules of the package import one another in one direction."""

import ast
import graphlib
import unittest
from pathlib import Path

SOURCES = Path(__file__).parents[3] / "crates/python/python"


def modules():
    """The modules of the package by name, with the paths of their sources, stubs included."""
    found = {}
    for path in sorted((SOURCES / "steplake").rglob("*.py*")):
        name = ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
        if path.suffix in (".py", ".pyi"):
            found[name] = path
    return found


def imported(source, names):
    """Those of the modules that a source imports anywhere: at the top, for types, in functions."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"line {node.lineno}: name the module from the package on")
            for one in node.names:
                submodule = f"{node.module}.{one.name}"
                found.add(submodule if submodule in names else node.module)
    return found & names


def circle(uses):
    """The modules of a circle, in order; None if there is none."""
    try:
        graphlib.TopologicalSorter(uses).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


class Imports(unittest.TestCase):
    def test_no_modules_import_each_other(self):
        paths = modules()
        self.assertLessEqual({"steplake", "steplake.env", "steplake._steplake"}, set(paths))
        uses = {name: imported(path.read_text(), set(paths)) for name, path in paths.items()}
        self.assertIn("steplake.wrappers.core", uses["steplake.wrappers"])
        self.assertIsNone(circle(uses), "move what both need to a module that both may import")

    def test_every_way_to_import_counts(self):
        names = {"p", "p.a", "p.b"}
        for source, wanted in [
            ("import p.a", {"p.a"}),
            ("from p import a, make", {"p", "p.a"}),
            ("from p.b import B", {"p.b"}),
            ("import os\nfrom q.a import b", set()),
            ("if TYPE_CHECKING:\n    from p.a import A", {"p.a"}),
            ("def f():\n    from p.a import A", {"p.a"}),
        ]:
            self.assertEqual(imported(source, names), wanted, source)
        self.assertEqual(set(circle({"p.a": {"p.b"}, "p.b": {"p.a"}})), {"p.a", "p.b"})
        with self.assertRaisesRegex(ValueError, "line 1"):
            imported("from . import a", names)


if __name__ == "__main__":
    unittest.main()
