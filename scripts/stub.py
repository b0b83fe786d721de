"""Puts the docstrings of the compiled module into its stub, from which editors show them:

    stub.py [--write]

It prints the stub of the installed package as it should be, or writes it into the sources.
"""

import argparse
import ast
import inspect
from pathlib import Path

from steplake import _steplake

STUB = Path(__file__).parents[1] / "crates/python/python/steplake/_steplake.pyi"
INDENT = "    "


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    wanted = documented(STUB.read_text())
    if parser.parse_args().write:
        STUB.write_text(wanted)
    else:
        print(wanted, end="")


def documented(text):
    """The text of a stub, with the docstring of each class, method and function."""
    lines = text.splitlines()
    # From the last one on, so that the lines of the others stay where they are.
    for node, owner in reversed(list(definitions(ast.parse(text)))):
        doc = docstring(node, owner)
        body, depth = node.body[0], node.col_offset + len(INDENT)
        is_class = isinstance(node, ast.ClassDef)
        has_one = isinstance(body, ast.Expr) and isinstance(body.value, ast.Constant)
        if is_class and not has_one:
            lines[body_line(body) : body_line(body)] = written(doc, depth)
            continue
        # All that a function has here is its docstring, or dots, maybe in the line of its head.
        first, last = body.lineno - 1, body.end_lineno
        head = lines[first][: body.col_offset].rstrip()
        if not head:
            first -= 1
            head = lines[first]
        dots = "" if is_class or doc is not None else " ..."
        lines[first:last] = [head + dots, *written(doc, depth)]
    return "\n".join(lines) + "\n"


def body_line(body):
    """The place of the first line of a statement, or of its decorators."""
    decorators = getattr(body, "decorator_list", [])
    return min([body.lineno, *(one.lineno for one in decorators)]) - 1


def definitions(tree):
    """The classes and functions of a stub, with what holds them, in the order of their lines."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node, _steplake
            owner = getattr(_steplake, node.name)
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    yield member, owner
        elif isinstance(node, ast.FunctionDef):
            yield node, _steplake


def docstring(node, owner):
    """The docstring of a definition; none for a method with two underscores."""
    if node.name.startswith("__"):
        return None
    found = inspect.getattr_static(owner, node.name)
    doc = getattr(found, "__func__", found).__doc__
    return inspect.cleandoc(doc) if doc else None


def written(doc, depth):
    """The lines of a docstring."""
    if doc is None:
        return []
    if "\\" in doc or '"""' in doc:
        raise ValueError(f"a docstring that cannot be written as it is: {doc!r}")
    first, *others = doc.splitlines()
    indent = " " * depth
    if not others:
        return [f'{indent}"""{first}"""']
    return [f'{indent}"""{first}', *(f"{indent}{line}".rstrip() for line in others), f'{indent}"""']


if __name__ == "__main__":
    main()
