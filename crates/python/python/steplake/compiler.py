"""Compilers of one's own: environments from Python classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from steplake import _steplake
from steplake.errors import UsageError

# The types of observations.
_KINDS: dict[Any, str] = {
    int: "int",
    float: "float",
    str: "text",
    bytes: "bytes",
    list[int]: "int_vector",
    list[float]: "float_vector",
    list[str]: "text_list",
}


class Compiler(ABC):
    """A compiler of one's own. A subclass is an environment like any other::

        class Halver(steplake.Compiler):
            name = "halver-v0"
            version = "halver 1"
            actions = ["halve", "decrement"]
            observations = {"Value": int, "Energy": float}
            rewards = {"Energy": "Energy"}

            def start(self, program):
                self.value = int(program)

            def apply(self, action):
                self.value = self.value // 2 if action == "halve" else self.value - 1

            def save(self):
                return str(self.value).encode()

            def observe(self, space):
                return self.value if space == "Value" else 0.1 * self.value

        env = steplake.make(Halver, benchmark=b"12")

    An instance plays one episode: it is made without arguments, and `start` is called once. The
    compiler runs in this process. It must be a function of its input: the same program and the same
    actions give the same states, and equal states give equal bytes and equal observations, in any
    process and at any time.

    Attributes
    ----------
    name : str
        The name of the environment with its version, such as ``stack-v0``.
    version : str
        The compiler and its exact build. A lake holds the states of one build.
    target : str
        What it compiles for.
    actions : sequence of str, or mapping of str to sequence of str
        The names of the actions, or several action spaces by name.
    observations : mapping of str to type
        The observation spaces: ``int``, ``float``, ``str``, ``bytes``, ``list[int]``,
        ``list[float]`` or ``list[str]``, or ``(int, names)`` or ``(float, names)`` for a vector
        whose numbers have names. Integers of vectors have 32 bits, others 64.
    rewards : mapping of str to str
        The reward spaces, each with its cost: an observation space of single numbers. The reward
        of a step is the cost before it less the cost after it.
    programs : mapping of str to bytes
        Programs by name: ``sum`` of ``stack-v0`` is ``benchmark://stack-v0/sum``.
    """

    name: str
    version: str
    target: str = "any"
    actions: Sequence[str] | Mapping[str, Sequence[str]]
    observations: Mapping[str, type | tuple[type, Sequence[str]]] = {}
    rewards: Mapping[str, str] = {}
    programs: Mapping[str, bytes] = {}

    @abstractmethod
    def start(self, program: bytes) -> None:
        """Begin with a program, or with a state that `save` returned.

        Raises
        ------
        ValueError
            If it is no program. Any other exception is a failure of the compiler.
        """

    @abstractmethod
    def apply(self, action: str) -> bool | None:
        """Apply an action. An exception is a failure of the compiler, and ends the episode.

        A ``MemoryError`` is recorded as ``out-of-memory``, a ``TimeoutError`` as ``time-out``, any
        other exception as ``crash``. ``KeyboardInterrupt`` and ``SystemExit`` are no failures.

        Returns
        -------
        bool or None
            False if the state is surely the one before; otherwise `save` tells.
        """

    @abstractmethod
    def save(self) -> bytes:
        """Return the state. Equal states give equal bytes; their SHA-1 is the id of the state."""

    def observe(self, space: str) -> Any:
        """Return the observation of the state in a space, a value of the declared type.

        It is called at most once for each step and space.
        """
        raise NotImplementedError(f"{type(self).__name__}.observe({space!r})")

    def fork(self) -> Compiler | None:
        """Return a second compiler in the same state, which shares nothing that changes.

        By default None: then a new instance starts from what `save` returned.
        """
        return None


def open_environment(
    given: str | Callable[[], Compiler], step_cpu_seconds: int | None, worker_memory_mib: int | None
) -> _steplake.Environment:
    """Return the environment of a name, or of a class, whose compiler has no limits."""
    if isinstance(given, str):
        return _steplake.Environment(
            given, step_cpu_seconds=step_cpu_seconds, worker_memory_mib=worker_memory_mib
        )
    if step_cpu_seconds is not None or worker_memory_mib is not None:
        raise UsageError("a compiler of your own runs in this process, and has no limits")
    return _environment(given)


def _environment(make: Callable[[], Compiler]) -> _steplake.Environment:
    """Return the environment of a class, or of a function that makes instances.

    Raises
    ------
    UsageError
        If the class declares what cannot be recorded.
    """
    one = make() if callable(make) else None
    if not isinstance(one, Compiler):
        raise UsageError(
            f"{make!r} makes no environment: give the name of one, a subclass of "
            "steplake.Compiler, or a function that returns a new instance of one"
        )
    kind = type(one).__name__
    if make() is one:
        raise UsageError(f"{make!r} returns one {kind} twice: an instance plays only one episode")
    for declared in ("name", "version", "actions"):
        if not hasattr(one, declared):
            raise UsageError(f"{kind} does not declare `{declared}`")
    for declared in ("name", "version", "target"):
        if not isinstance(getattr(one, declared), str):
            raise UsageError(f"{kind}.{declared} is {getattr(one, declared)!r}: give a text")
    for name, program in one.programs.items():
        if not isinstance(name, str) or not isinstance(program, bytes):
            raise UsageError(f"{kind}.programs has {name!r}: {program!r:.60}: give bytes by name")
    spaces = one.actions if isinstance(one.actions, Mapping) else {one.name: one.actions}
    if any(isinstance(actions, str) for actions in spaces.values()):
        raise UsageError(f"{kind}.actions is a text: give a list of names")
    declaration = {
        "name": one.name,
        "version": one.version,
        "target": one.target,
        "action_spaces": [(name, list(actions)) for name, actions in spaces.items()],
        "observation_spaces": [
            (name, *_kind(kind, name, declared)) for name, declared in one.observations.items()
        ],
        "reward_spaces": list(one.rewards.items()),
    }
    return _steplake.Environment.own(make, kind, declaration, list(one.programs.items()))


def _kind(compiler: str, name: str, declared: Any) -> tuple[str, list[str]]:
    """Return the word for the type of an observation space, and the names of its numbers."""
    if isinstance(declared, tuple) and len(declared) == 2 and declared[0] in (int, float):
        return "int_vector" if declared[0] is int else "float_vector", list(declared[1])
    for known, kind in _KINDS.items():
        if declared == known:
            return kind, []
    raise UsageError(
        f"{compiler}.observations[{name!r}] is {declared!r}: write int, float, str, bytes, "
        "list[int], list[float] or list[str], or (int, names) or (float, names) for a vector"
    )
