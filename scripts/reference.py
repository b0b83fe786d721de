"""Builds the reference of the installed package steplake from its docstrings, with pdoc:

    reference.py FOLDER

The pages load nothing from elsewhere. They are not written if a public name has no docstring.
"""

import __future__

import argparse
import importlib.util
import inspect
import pkgutil
import sys
import types
import warnings
from pathlib import Path
from unittest import mock

import pdoc.doc
import pdoc.doc_pyi
import pdoc.render
import steplake
from steplake import _steplake

# Modules without a page: two have no names for others, two have names of the package itself.
WITHOUT_PAGE = {"defaults", "registration", "lake", "recording"}
# The packages that the stubs name. A reference needs none of them.
OPTIONAL = ["pandas", "polars", "pyarrow", "torch"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    folder = parser.parse_args().folder
    warnings.simplefilter("error")
    # Types of private attributes, which no page shows.
    warnings.filterwarnings("ignore", r"Error parsing type annotation .* for steplake\S*\._")
    modules = public_modules()
    if silent := undocumented(modules):
        sys.exit("\n".join(["these names have no docstring:", *silent]))
    write(modules, folder)


def public_modules():
    """The package and its modules for others, by name."""
    # pdoc looks at what was imported, and some names are imported when they are asked for.
    for name in steplake.__all__:
        vars(steplake)[name] = getattr(steplake, name)
    found = [one.name for one in pkgutil.iter_modules(steplake.__path__)]
    public = [name for name in found if not name.startswith("_") and name not in WITHOUT_PAGE]
    names = ["steplake", *(f"steplake.{name}" for name in public)]
    modules = {name: pdoc.doc.Module.from_name(name) for name in names}
    package, *others = modules.values()
    package.submodules = others
    read_stubs(package)
    return modules


def read_stubs(package):
    """Takes the types of the compiled classes from the stubs."""
    path = Path(steplake.__file__).with_name("_steplake.pyi")
    # In a stub a name may stand before its definition: types stay texts until all are there.
    flag = __future__.annotations.compiler_flag
    code = compile(path.read_text(), path, "exec", flag, dont_inherit=True)
    stubs = types.ModuleType("steplake")
    compiled = [one for one in package.classes if compiled_class(one) is not None]
    for one in compiled:
        pdoc.doc_pyi._prepare_module(one)
        # No other page has the methods of a compiled base.
        base = compiled_class(one)
        one.own_members += one.inherited_members.get((base.__module__, base.__qualname__), [])
    absent = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
    with mock.patch.dict(sys.modules, {name: StandIn(name) for name in absent}):
        exec(code, vars(stubs))
        sys.modules["steplake"] = stubs
        for one in compiled:
            pdoc.doc_pyi._patch_doc(one, pdoc.doc.Module(stubs))
    for one in compiled:
        # A compiled class has no lines to go by; the stubs have.
        names = list(vars(vars(stubs)[one.name]))
        one.own_members.sort(key=lambda member: member.name in names and names.index(member.name))


def compiled_class(shown):
    """The compiled class that a class is or extends, if any."""
    known = getattr(_steplake, shown.name, None)
    return known if known in shown.obj.__mro__ else None


class StandIn(types.ModuleType):
    """A package that is not installed, with every class that the stubs name."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return type(name, (), {"__module__": self.__name__})


def undocumented(modules):
    """The public names without a docstring; plain attributes are described by their class."""
    found = set()
    for module in modules.values():
        for member in [module, *module.own_members]:
            is_class = isinstance(member, pdoc.doc.Class)
            for one in [member, *(member.own_members if is_class else [])]:
                is_silent = not one.name.startswith("_") and not one.docstring.strip()
                if is_silent and (one is member or not is_attribute(member.obj, one.name)):
                    found.add(one.fullname)
    return sorted(found)


def is_attribute(owner, name):
    """Whether a name of a class is neither a method nor a property."""
    return not hasattr(type(inspect.getattr_static(owner, name, None)), "__get__")


def write(modules, folder):
    pdoc.render.configure(docformat="numpy", footer_text="steplake")
    pages = {
        f"{name.replace('.', '/')}.html": pdoc.render.html_module(module, modules)
        for name, module in modules.items()
    }
    pages["index.html"] = pdoc.render.html_index(modules)
    pages["search.js"] = pdoc.render.search_index(modules)
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
