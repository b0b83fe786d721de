"""Spaces that Gymnasium lacks: named actions, texts, bytes, graphs and tokens of programs."""

from __future__ import annotations

import difflib
import itertools
import operator
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from steplake import _optional
from steplake.errors import UsageError


class NamedDiscrete(spaces.Discrete):
    """A discrete action space whose actions have names.

    Parameters
    ----------
    name : str
        The name of the action space with its version, e.g. ``llvm22-v1``.
    names : sequence of str
        The names of the actions, in the order of their numbers.
    pipelines : sequence of str
        What the compiler is asked to do for each action.
    flags : sequence of dict
        The findings of a probe for each action: ``replayable``, ``crashes``, ``slow`` and
        ``never_changes``.

    Examples
    --------
    >>> space = env.action_space
    >>> space.names[space["mem2reg"]]
    'mem2reg'
    >>> space.to_string(space.from_string("mem2reg gvn"))
    'mem2reg gvn'
    """

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        pipelines: Sequence[str] = (),
        flags: Sequence[dict[str, bool]] = (),
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(len(names), seed=seed)
        self.name = name
        self.names = tuple(names)
        self.pipelines = tuple(pipelines)
        self.flags = tuple(flags)
        self._index = {name: index for index, name in enumerate(self.names)}

    def __getitem__(self, name: str) -> int:
        """Return the number of the action called `name`.

        Raises
        ------
        KeyError
            If there is no such action.
        """
        if name not in self._index:
            near = difflib.get_close_matches(str(name), self.names, 1)
            hint = f": did you mean {near[0]!r}?" if near else "; `env.action_space.names` has all"
            raise KeyError(f"there is no action {name!r}{hint}")
        return self._index[name]

    def numbers(self, actions: Iterable[Any]) -> list[int]:
        """Return actions as integers.

        Raises
        ------
        UsageError
            If one is no action, or they are no sequence.
        """
        try:
            given = iter(actions)
        except TypeError:
            text = f"{actions!r} is no sequence of actions: give a list of their numbers"
            raise UsageError(text) from None
        numbers = []
        for action in given:
            try:
                number = operator.index(action)
            except TypeError:
                raise UsageError(
                    f"{action!r} is no number of an action: `env.action_space[NAME]` returns one, "
                    "and `multistep` takes several"
                ) from None
            if not 0 <= number < self.n:
                raise UsageError(f"there is no action {number}: there are 0 to {self.n - 1}")
            numbers.append(number)
        return numbers

    def to_string(self, actions: Iterable[int]) -> str:
        """Return the names of actions, separated by blanks."""
        return " ".join(self.names[action] for action in actions)

    def from_string(self, text: str) -> list[int]:
        """Return the actions that `to_string` wrote."""
        return [self[name] for name in text.split()]

    def __repr__(self) -> str:
        return f"NamedDiscrete({self.name!r}, {self.n} actions)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedDiscrete) and self.names == other.names

    __hash__ = None  # type: ignore[assignment]


def opt_command(space: NamedDiscrete, actions: Iterable[int]) -> str:
    """Return the command of ``opt`` that applies actions of LLVM.

    Between two actions an environment brings the program into a canonical form, and ``opt`` does
    not, so its result may differ in what has no meaning. ``opt`` takes an option for all of its
    passes, so actions with another option are those of another call, in a pipe.
    """
    pipelines = (space.pipelines[action] for action in actions)
    split = [_split_option(pipeline) for pipeline in pipelines if pipeline]
    calls = [
        f"opt-22 -passes='{','.join(passes for _, passes in run)}'{option}"
        for option, run in itertools.groupby(split, operator.itemgetter(0))
    ] or ["opt-22"]
    calls[0] += " input.bc"
    return " | ".join(calls) + " -o output.bc"


def _split_option(pipeline: str) -> tuple[str, str]:
    """Return ``opt``'s option and passes for ``with<OPTION=VALUE>(PASSES)`` or mere passes."""
    split = re.fullmatch(r"with<(.*?)>\((.*)\)", pipeline)
    return (f" -{split[1]}", split[2]) if split else ("", pipeline)


class RewardSpace(spaces.Box):
    """The space of the rewards of an environment: numbers.

    It equals the name of the reward space, which older versions had in its place, with a warning.

    Attributes
    ----------
    name : str
        The name of the reward space.
    """

    def __init__(self, name: str) -> None:
        super().__init__(-np.inf, np.inf, (), np.float32)
        self.name = name

    def __repr__(self) -> str:
        return f"RewardSpace({self.name!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            warnings.warn(
                "`reward_space` is a space: `reward_space_name` is its name",
                DeprecationWarning,
                stacklevel=2,
            )
            return self.name == other
        return isinstance(other, RewardSpace) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class Text(spaces.Space[str]):
    """Texts of any length."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """A text is no array."""
        return False

    def contains(self, x: Any) -> bool:
        """Return whether `x` is a text."""
        return isinstance(x, str)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Return a text: the empty one, since no other is more likely."""
        return ""

    def __repr__(self) -> str:
        return "Text()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text)


class Bytes(spaces.Space[bytes]):
    """Bytes of any number, such as bitcode."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Bytes are no array."""
        return False

    def contains(self, x: Any) -> bool:
        """Return whether `x` is bytes."""
        return isinstance(x, bytes)

    def sample(self, mask: Any = None, probability: Any = None) -> bytes:
        """Return no bytes, since no others are more likely."""
        return b""

    def __repr__(self) -> str:
        return "Bytes()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bytes)


class Lists(spaces.Space[dict[str, Any]]):
    """Dicts of lists: texts as a list, numbers as an array.

    Lists whose names begin with the same word have one item each for the same things.
    """

    #: The lists, each with the type of its numbers; none for texts.
    LISTS: Mapping[str, Any] = {}

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """A dict of lists is no array."""
        return False

    def contains(self, x: Any) -> bool:
        """Return whether `x` has these lists, and whether they agree in length."""
        if not isinstance(x, dict) or x.keys() != self.LISTS.keys():
            return False
        lengths: dict[str, int] = {}
        for name, dtype in self.LISTS.items():
            if lengths.setdefault(name.split("_")[0], len(x[name])) != len(x[name]):
                return False
            if dtype is None and not all(isinstance(text, str) for text in x[name]):
                return False
            if dtype is not None and getattr(x[name], "dtype", None) != dtype:
                return False
        return True

    def sample(self, mask: Any = None, probability: Any = None) -> dict[str, Any]:
        """Return empty lists, since no others are more likely."""
        return {
            name: [] if dtype is None else np.zeros(0, dtype)
            for name, dtype in self.LISTS.items()
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)


class ProgramGraph(Lists):
    """Graphs of programs, as ProGraML 0.3.2 makes them: dicts of lists.

    ``node_text`` is a list of texts, the others are arrays. Each has one item for each node, or for
    each edge. What they mean stands in the page `The lake on disk`, since a lake has the same lists.

    Examples
    --------
    >>> graph = env.observation["Programl"]
    >>> graph["node_text"][0], int(graph["node_type"][0])
    ('[external]', 0)
    >>> len(graph["edge_source"]) == len(graph["edge_flow"])
    True
    """

    #: The lists, each with the type of its numbers; none for texts.
    LISTS = {
        "node_type": np.int8,
        "node_text": None,
        "node_function": np.int32,
        "node_block": np.int32,
        "edge_flow": np.int8,
        "edge_position": np.int32,
        "edge_source": np.int32,
        "edge_target": np.int32,
    }


class Tokens(Lists):
    """The tokens of programs: dicts of lists.

    ``token_id`` is an array, the others are lists of texts. Each has one item for each token. What
    they mean stands in the page `The lake on disk`, since a lake has the same lists.

    Examples
    --------
    >>> tokens = env.observation["LexedIr"]
    >>> tokens["token_kind"][0], tokens["token_category"][0]
    ('kw_source_filename', 'keyword')
    >>> len(tokens["token_id"]) == len(tokens["token_value"])
    True
    """

    #: The lists, each with the type of its numbers; none for texts.
    LISTS = {
        "token_id": np.int32,
        "token_kind": None,
        "token_category": None,
        "token_value": None,
    }


def program_graph_to_networkx(graph: Mapping[str, Any]) -> Any:
    """Return the graph of a program as a ``networkx.MultiDiGraph``.

    A node is its number; it has ``type``, ``text``, ``function`` and ``block``. An edge has
    ``flow`` and ``position``.

    Parameters
    ----------
    graph : mapping of str to sequence
        An observation of an environment, or a value of a lake's column.

    Raises
    ------
    MissingPackage
        If networkx is not installed.

    Examples
    --------
    >>> observed = env.observation["Programl"]
    >>> graph = steplake.spaces.program_graph_to_networkx(observed)
    >>> graph.nodes[0]
    {'type': 0, 'text': '[external]', 'function': 0, 'block': 0}
    >>> graph.number_of_edges() == len(observed["edge_flow"])
    True
    """
    networkx = _optional.package("networkx", "`program_graph_to_networkx`")

    def items(prefix: str) -> Iterable[tuple[Any, ...]]:
        names = [name for name in ProgramGraph.LISTS if name.startswith(prefix)]
        lists = (getattr(graph[name], "tolist", lambda name=name: graph[name])() for name in names)
        return zip(*lists, strict=True)

    made = networkx.MultiDiGraph()
    for number, (kind, text, function, block) in enumerate(items("node_")):
        made.add_node(number, type=kind, text=text, function=function, block=block)
    for flow, position, source, target in items("edge_"):
        made.add_edge(source, target, flow=flow, position=position)
    return made


#: Environments' spaces of matrices, with the lengths of the rows. A session and a lake have the
#: rows as one vector, one after another.
_ROW_LENGTHS = {("llvm-v0", "Inst2vec"): 200}


@dataclass(frozen=True)
class ObservationSpec:
    """An observation space: its place, the space of its values, and the names of its numbers."""

    place: int
    space: spaces.Space[Any]
    features: tuple[str, ...]
    of_benchmark: bool
    #: The length of the rows, if the values are matrices.
    row_length: int | None = None

    def shown(self, value: Any) -> Any:
        """Return a value of a session as one of the space."""
        if self.row_length is None or value is None:
            return value
        return value.reshape(-1, self.row_length).astype(np.float32, copy=False)


def observation_space(
    kind: str, features: Sequence[str], row_length: int | None = None
) -> spaces.Space[Any]:
    """Return the space of the values of an observation.

    Parameters
    ----------
    kind : str
        ``int``, ``float``, ``text``, ``bytes``, ``int_vector``, ``float_vector``, ``text_list``,
        ``program_graph`` or ``tokens``.
    features : sequence of str
        The names of the numbers of a vector.
    row_length : int, optional
        The length of the rows, if vectors are the rows of a matrix, one after another.
    """
    if row_length is not None:
        row = spaces.Box(-np.inf, np.inf, (row_length,), np.float32)
        return spaces.Sequence(row, stack=True)
    shape = (len(features),)
    int64, int32 = np.iinfo(np.int64), np.iinfo(np.int32)
    match kind:
        case "int":
            return spaces.Box(int64.min, int64.max, (), np.int64)
        case "float":
            return spaces.Box(-np.inf, np.inf, (), np.float64)
        case "int_vector" if features:
            return spaces.Box(int32.min, int32.max, shape, np.int32)
        case "float_vector" if features:
            return spaces.Box(-np.inf, np.inf, shape, np.float64)
        case "text":
            return Text()
        case "bytes":
            return Bytes()
        case "program_graph":
            return ProgramGraph()
        case "tokens":
            return Tokens()
        case "int_vector":
            return spaces.Sequence(spaces.Box(int32.min, int32.max, (), np.int32), stack=True)
        case "float_vector":
            return spaces.Sequence(spaces.Box(-np.inf, np.inf, (), np.float64), stack=True)
        case _:
            return spaces.Sequence(Text())


def observation_specs(
    environment: str, declared: Iterable[tuple[str, str, Sequence[str], bool]]
) -> dict[str, ObservationSpec]:
    """Return the observation spaces of an environment by name, in their order.

    Parameters
    ----------
    environment : str
        The name of the environment.
    declared : iterable of tuple
        The name of each space, its kind, the names of its numbers, and whether it is of the
        benchmark alone.
    """
    specs = {}
    for place, (name, kind, features, of_benchmark) in enumerate(declared):
        row_length = _ROW_LENGTHS.get((environment, name))
        space = observation_space(kind, features, row_length)
        specs[name] = ObservationSpec(place, space, tuple(features), of_benchmark, row_length)
    return specs
