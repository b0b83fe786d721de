import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import pandas
import polars
import pyarrow
import torch
from typing_extensions import disjoint_base

__all__ = [
    "Answer",
    "BackfillReport",
    "BatchReader",
    "Benchmark",
    "Coverage",
    "Dataset",
    "DedupReport",
    "EPISODE_LENGTH",
    "Environment",
    "Lake",
    "MeasureReport",
    "NamedQuery",
    "Recording",
    "Relation",
    "RunSummary",
    "Session",
    "Step",
    "Verification",
    "__version__",
    "before_fork",
    "begin",
    "check_semantics",
    "command_line",
    "compiler",
    "environments",
    "generate",
    "step_all",
    "unpickled_benchmark",
]

__version__: str
EPISODE_LENGTH: int

_StateId = str | bytes
_Parameter = bool | int | float | str | bytes | None
_Flags = dict[str, bool]

@final
class Answer:
    """The answer to a question, which is asked when its rows are wanted.

    Iterating gives the rows as tuples, and ``len(answer)`` is their number: that runs the query,
    and keeps its rows for what follows, as long as the answer itself. So does ``list(answer)``,
    which asks for the number first; ``answer.fetchall()`` keeps nothing. An answer is true, also
    one without rows: ``if answer`` runs nothing.

    Examples
    --------
    >>> answer = lake.sql("SELECT action, name FROM actions ORDER BY action LIMIT 2")
    >>> len(answer), [action for action, _name in answer]
    (2, [0, 1])
    """
    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
    def to_arrow_table(self) -> pyarrow.Table:
        """Run the query and return a ``pyarrow.Table``.

        Raises
        ------
        MissingPackage
            If pyarrow is not installed.
        """
    def to_arrow_reader(self) -> pyarrow.RecordBatchReader:
        """Return a ``pyarrow.RecordBatchReader``, which runs the query as batches are read.

        The reader holds a few batches in memory, however long the answer is.
        """
    def pl(self) -> polars.DataFrame:
        """Run the query and return a ``polars.DataFrame``, without a copy where the types allow."""
    def df(self) -> pandas.DataFrame:
        """Run the query and return a ``pandas.DataFrame``."""
    def torch(self) -> dict[str, torch.Tensor]:
        """Run the query and return a dict of ``torch.Tensor``, one for each column.

        A column of numbers has the shape ``(rows,)``; a column of lists of one length, such as
        ``Autophase``, has the shape ``(rows, length)``. The tensors can be written to.

        Raises
        ------
        UsageError
            If a column has nulls, texts, bytes, or lists of several lengths.
        """
    def fetchall(self) -> list[tuple[Any, ...]]:
        """Run the query and return all rows as a list of tuples. State ids are 20 bytes."""
    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row as a tuple; None after the last one. The first call runs the query."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def __bool__(self) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...

@disjoint_base
class Lake:
    """A lake that is read."""
    def __new__(
        cls,
        path: str | os.PathLike[str],
        snapshot: int | None = None,
        *,
        context: str | None = None,
        memory: int | None = None,
        progress: bool | None = None,
    ) -> Self: ...
    @property
    def path(self) -> os.PathLike[str]:
        """The folder of the lake."""
    @property
    def _folder(self) -> os.PathLike[str]:
        """The folder of the one context."""
    @property
    def contexts(self) -> list[str]:
        """The names of the contexts that are read: what was recorded with one compiler and one action
        space each.
        """
    def context(self, name: str) -> Self:
        """Return the lake with one of its contexts alone.

        Raises
        ------
        UsageError
            If the lake has no such context.

        Examples
        --------
        >>> len(lake.context("llvm-v0").contexts)
        1
        """
    @property
    def snapshot(self) -> int | None:
        """The number of the snapshot that is read; None for the newest rows."""
    @property
    def tables(self) -> list[Relation]:
        """The tables and views, each with its description, rows and columns."""
    def sql(
        self, query: str, params: Sequence[_Parameter] | Mapping[str, _Parameter] | None = None
    ) -> Answer:
        """Ask a question in SQL.

        Parameters
        ----------
        query : str
            One statement: SELECT, EXPLAIN, SHOW or DESCRIBE.
        params : list or dict, optional
            The values of ``?`` and ``$1``, or of ``$name``: bool, int, float, str, bytes or None.

        Returns
        -------
        Answer
            Nothing runs before its rows are asked for.

        Raises
        ------
        QueryError
            If the text is wrong; the message says where.
        NotDeduplicated
            If the question needs the state transitions, and no dedup has counted any.

        Examples
        --------
        >>> count = "SELECT count(*) FROM steps WHERE action = ?"
        >>> lake.sql(count, [3]).fetchone()
        (12,)
        """
    def query(self, name: str, **params: object) -> Answer:
        """Ask a named query; `queries` lists them.

        Parameters
        ----------
        name : str
            The name of the query.
        **params
            The values of its parameters.

        Raises
        ------
        UsageError
            If there is no such query or parameter.
        NotInLake
            If a value names what the lake does not have.
        """
    @staticmethod
    def queries() -> list[NamedQuery]:
        """The named queries, each with its parameters."""
    @property
    def observation_spaces(self) -> dict[str, list[str]]:
        """The observation spaces of the lake, each with the names of the numbers of a vector; others
        have none.
        """
    def snapshots(self) -> Answer:
        """The snapshots of the lake, oldest first."""
    def info(self) -> dict[str, Any]:
        """What the lake is and holds: environment, compiler, spaces, tables, runs, as a dict."""
    def ir(self, state: _StateId) -> str:
        """Return the IR of a state as text; it is rebuilt if the lake does not store it.

        Parameters
        ----------
        state : str or bytes
            The id of the state: 40 hexadecimal digits, or 20 bytes.

        Raises
        ------
        NoSuchState
            If the lake does not have the state, or was not meant to keep its IR.
        """
    def seal(self) -> int:
        """Write the rows of closed episodes to Parquet, and return their number.

        Raises
        ------
        LakeBusy
            If somebody is recording into the lake, who seals as well.
        """
    def compact(self) -> int:
        """Seal what is closed, and merge the small files of the recorded tables, so that look-ups open
        few files. Returns how many files were merged.

        Earlier snapshots have the old files until ``steplake expire`` and ``steplake gc``.

        Raises
        ------
        LakeBusy
            If somebody records into the lake or maintains it.
        """
    def dedup(
        self, *, full: bool = False, counted: str | os.PathLike[str] | None = None
    ) -> DedupReport:
        """Seal what is closed, and count the steps that are not counted yet as state transitions.

        Parameters
        ----------
        full : bool, optional
            Count all steps anew.
        counted : str or os.PathLike, optional
            Seal nothing, and take the tables in this folder, which
            ``steplake.spark.deduplicate`` wrote, in place of all that the lake has. Each row is
            compared with the lake's steps. Steps that were sealed since stay uncounted.

        Raises
        ------
        UsageError
            If `full` and `counted` are both given.
        LakeError
            If these are not the tables of the steps of the lake; the message says why. The lake is
            unchanged.
        LakeBusy
            If somebody maintains the lake.
        """
    def backfill(
        self, spaces: str | Sequence[str], *, jobs: int | None = None
    ) -> BackfillReport:
        """Compute observations that states of the lake lack, by replay, on all cores.

        Later runs record these spaces by default. After an interruption or a kill, the same call
        continues.

        Parameters
        ----------
        spaces : str or list of str
            The observation spaces, such as ``"Programl"``.
        jobs : int, optional
            The number of worker processes; by default the number of cores.

        Returns
        -------
        BackfillReport
            The states that have the observations now, and those left out; printed, a line about
            both.

        Raises
        ------
        UsageError
            If the environment has no such space.
        LakeBusy
            If somebody records into the lake or maintains it.
        """
    def measure(
        self,
        space: str = "Runtime",
        *,
        states: str = "best",
        cost: str | None = None,
        benchmarks: str | Sequence[str] | None = None,
        samples: int = ...,
        warmups: int = 1,
        cpu: int | None = None,
        machine: str | None = None,
    ) -> MeasureReport:
        """Run programs of recorded states on this machine, and record how long they take.

        Each state is rebuilt, compiled and run; its samples become a row of the table
        ``measurements``, and the named query ``speedups`` compares them. The states of one program
        take turns, and its first state is always among them. The rows of a program are durable when
        its last sample has been taken, and stay after Ctrl-C.

        Parameters
        ----------
        space : {"Runtime", "Buildtime"}, optional
            What is measured.
        states : {"best", "best=N", "initial", "all"}, optional
            Which states of each program besides its first one: the one, or the N, with the lowest
            `cost`; none; or all that were reached.
        cost : str, optional
            The space in which ``best`` is the lowest; by default the cost of the first reward.
        benchmarks : str or list of str, optional
            URIs of programs, and patterns of them; by default all.
        samples : int, optional
            The number of samples of each state.
        warmups : int, optional
            The number of times before them, which are left out.
        cpu : int, optional
            The core on which programs run; by default any. Builds use any.
        machine : str, optional
            A name for this machine, where its kind alone does not tell it from others.

        Returns
        -------
        MeasureReport
            What was measured, and why some states have no row; printed, it is the report.

        Raises
        ------
        UsageError
            If no program was chosen that can be run.
        LakeBusy
            If somebody records into the lake.
        """
    def verify(
        self,
        *,
        replay: int | None = None,
        semantics: int | None = None,
        seed: int = 0,
        derived: bool = False,
        repair: bool = False,
    ) -> Verification:
        """Check every byte of the lake, and every state id that its compiler can recompute.

        Parameters
        ----------
        replay : int, optional
            How many random transitions to play again in the live environment.
        semantics : int, optional
            How many random states of runnable programs to build and run. What differs from the
            first state is minimised, becomes a row of the table ``miscompilations``, and is said in
            the report.
        seed : int, optional
            Fixes which ones.
        derived : bool, optional
            Count the steps again, and compare each row of the derived tables with what follows.
        repair : bool, optional
            Drop what is damaged first.

        Returns
        -------
        Verification
            True if nothing is wrong; printed, it is the report.
        """
    def close(self) -> None:
        """Lets go of the lake's files, so that they can be deleted. An answer whose rows are not read
        to the end keeps its own.
        """
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class NamedQuery:
    """A question with a name."""
    @property
    def name(self) -> str:
        """Its name."""
    @property
    def title(self) -> str:
        """What it asks."""
    @property
    def parameters(self) -> list[tuple[str, str, str | None, str]]:
        """Its parameters: name, kind, default and description of each."""
    @property
    def sql(self) -> str:
        """Its text in SQL."""

@final
class Relation:
    """A table or a view."""
    @property
    def name(self) -> str:
        """Its name."""
    @property
    def description(self) -> str:
        """What it holds."""
    @property
    def rows(self) -> int | None:
        """The number of its rows; None for a view."""
    @property
    def columns(self) -> list[tuple[str, str, str]]:
        """Its columns: name, type and description of each."""

@final
class DedupReport:
    """What a dedup counted."""
    @property
    def steps(self) -> int:
        """The steps that are counted."""
    @property
    def transitions(self) -> int:
        """The state transitions that they make."""
    @property
    def conflicts(self) -> int:
        """The pairs of a state and an action that led to several states."""
    @property
    def failures(self) -> int:
        """The pairs of a state and an action over which the compiler failed."""
    @property
    def layers(self) -> int:
        """The layers that hold the tables."""
    @property
    def waiting(self) -> int:
        """The steps that wait for the end of their episode."""

@final
class BackfillReport:
    """What a backfill filled in."""
    @property
    def states(self) -> int:
        """The sealed states."""
    @property
    def had(self) -> int:
        """Those that had an observation in each of the spaces before."""
    @property
    def filled(self) -> int:
        """Those that lacked one and have it now."""
    @property
    def resumed(self) -> int:
        """How many of these an interrupted backfill had computed."""
    @property
    def without_path(self) -> int:
        """Those that no recorded path leads to from stored IR: their observations stay None."""
    @property
    def elsewhere(self) -> int:
        """Those to which the recorded paths did not lead this time: likewise."""
    @property
    def failed(self) -> int:
        """Those on which the compiler failed: likewise."""
    @property
    def snapshot(self) -> int | None:
        """The snapshot with the observations; None if nothing was filled in."""
    @property
    def seconds(self) -> float:
        """The time that it took."""
    @property
    def text(self) -> str:
        """The report."""

@final
class MeasureReport:
    """What a measurement of a lake has measured."""
    @property
    def space(self) -> str:
        """What was measured: ``Runtime`` or ``Buildtime``."""
    @property
    def machine(self) -> str:
        """The machine, as the column ``machine`` says it."""
    @property
    def programs(self) -> int:
        """The programs that can be run."""
    @property
    def not_runnable(self) -> int:
        """The programs that were chosen and cannot be run: nobody says how."""
    @property
    def measurements(self) -> int:
        """The rows that were appended to the table ``measurements``."""
    @property
    def samples(self) -> int:
        """The samples in them."""
    @property
    def left_out(self) -> int:
        """The states that were to be measured and have no row."""
    @property
    def problems(self) -> list[tuple[str, str, str]]:
        """Why some have none, and which files a program could not open: the URI of the program, the id
        of the state, and a sentence.
        """
    @property
    def wrong_results(self) -> int:
        """How many states have none because the program does something else there than in its
        first state.
        """
    @property
    def text(self) -> str:
        """The report."""

@final
class Verification:
    """What a verification found."""
    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
    @property
    def findings(self) -> list[tuple[os.PathLike[str], str]]:
        """What is wrong: the path of the file, and a sentence."""
    @property
    def replayed(self) -> int | None:
        """The transitions that were played again; None if none was to be."""
    @property
    def disagreeing(self) -> int | None:
        """Those that led elsewhere."""
    @property
    def text(self) -> str:
        """The report."""
    def __bool__(self) -> bool: ...

@final
class RunSummary:
    """What a call has recorded of a run."""
    @property
    def run_id(self) -> int:
        """The number of the run in its lake."""
    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do: the run reached its stop, or its searches are over."""
    @property
    def steps(self) -> int:
        """The steps that this call recorded."""
    @property
    def states(self) -> int:
        """The states among them that are new to the lake."""
    @property
    def episodes(self) -> int:
        """The episodes that this call recorded."""
    @property
    def failures(self) -> int:
        """The episodes that the compiler's failure ended, at a step or at their start."""
    @property
    def failure_kinds(self) -> dict[str, int]:
        """The same by kind: `crash`, `time-out`, and the like, as in the table `failures`."""

@final
class Benchmark:
    """A program with its name and where it comes from."""
    def __new__(
        cls, uri: str, program: bytes, *, family: str = "", licence: str = ""
    ) -> Benchmark: ...
    @property
    def uri(self) -> str:
        """The URI that names it."""
    @property
    def program(self) -> bytes:
        """The program as the compiler reads it; for LLVM, bitcode."""
    @property
    def family(self) -> str:
        """The family of the program, such as ``csmith``: the unit of train and test splits."""
    @property
    def licence(self) -> str:
        """The licence, as an SPDX expression if it is known as one."""
    @property
    def origin(self) -> str:
        """Where the source was taken from."""
    @property
    def compile_command(self) -> str:
        """The command that made the program from its source."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Coverage:
    """What the sessions of a replayed lake were asked for, and what the lake knows."""
    @property
    def from_lake(self) -> int:
        """The steps that the lake answered, recorded failures included."""
    @property
    def refused(self) -> int:
        """The missing edges that were errors."""
    @property
    def stayed(self) -> int:
        """The missing edges at which the state stayed."""
    @property
    def went_live(self) -> int:
        """The missing edges at which the compiler was asked."""
    @property
    def live_steps(self) -> int:
        """The steps that the compiler answered, including those in states that the lake lacks."""
    @property
    def replayed_steps(self) -> int:
        """The steps that the compiler took only to reach the present state."""
    @property
    def states(self) -> int:
        """The states of the lake."""
    @property
    def known_pairs(self) -> int:
        """The pairs of a state and an action whose result the lake knows."""
    @property
    def all_pairs(self) -> int:
        """All pairs of these states with the actions of the action space."""
    @property
    def conflicts(self) -> int:
        """The pairs that led to several states, of which the most frequent one is followed."""
    @property
    def uncounted_steps(self) -> int:
        """The recorded steps that are not known, because they are newer than the last dedup."""

@final
class Dataset:
    """Rows of one snapshot. It has no thread and no open file: a forked process can use it."""
    def __new__(
        cls,
        path: str,
        snapshot: int | None,
        source: str,
        columns: Sequence[tuple[str, str | None]],
        conditions: Sequence[tuple[str, Any]],
        n_step: tuple[int, float] | None,
        progress: bool | None,
    ) -> Dataset: ...
    def __len__(self) -> int: ...
    @property
    def snapshot(self) -> int:
        """The number of the snapshot."""
    @property
    def fingerprint(self) -> str:
        """Names the rows and their order."""
    @property
    def newer_steps(self) -> int:
        """The closed steps that are not sealed, or not counted, and so left out."""
    @property
    def nbytes(self) -> int:
        """Bytes of memory when everything has been read."""
    @property
    def columns(self) -> list[tuple[str, str, int | None]]:
        """The columns: name, type of numbers, and numbers of a row if a row has a vector. The type of
        a column of graphs is `graph`.
        """
    @property
    def can_stream(self) -> bool:
        """Whether the rows can be streamed: they are no slices, episodes or graphs."""
    def node_texts(self, column: str) -> list[str] | None:
        """The distinct texts of nodes in a column of graphs; none if there is no such column."""
    def gather(
        self, places: npt.NDArray[np.uint32], seed: int | None, epoch: int
    ) -> dict[str, Any]:
        """Reads the rows at these places of an epoch's order, as a dict of arrays. Without a seed, the
        order is that of the dataset.
        """
    def choose(
        self, name: str, places: npt.NDArray[np.uint32], seed: int | None, epoch: int
    ) -> Dataset:
        """The rows at these places of an epoch's order; `name` says how they were chosen."""
    def sequences(self, length: int | None, stride: int) -> Dataset:
        """Makes items of several steps: slices, or without a length whole episodes."""
    def split(
        self, by: str, test_size: float, validation_size: float, seed: int
    ) -> tuple[list[tuple[str, Dataset]], dict[str, int], str | None]:
        """Splits the rows into parts, by their names; and says what became of the rows, and what there
        is to warn of.
        """
    def batches(
        self,
        batch_rows: int,
        *,
        drop_last: bool,
        rank: int,
        world_size: int,
        seed: int | None,
        epoch: int,
        begin: int,
        stride: int,
        threads: int,
        in_memory: bool,
    ) -> BatchReader:
        """Begins to read the batches of an epoch from a place on."""
    def rounds(self, batch_rows: int, drop_last: bool, world_size: int, begin: int) -> int:
        """The number of batches of each process from a place on."""
    def later(self, batch_rows: int, world_size: int, begin: int, rounds: int) -> int:
        """Where a later round begins."""

@final
class BatchReader:
    """The batches of an epoch, one after another."""
    def next(self) -> tuple[dict[str, Any], int, int] | None:
        """Returns the next batch, its number of items, and where the next round begins; None at the
        end.
        """

@final
class Environment:
    """A compiler problem. Its sessions live in worker processes; if its compiler is a Python class, in
    this process.
    """
    def __new__(
        cls,
        name: str,
        *,
        step_cpu_seconds: int | None = None,
        worker_memory_mib: int | None = None,
    ) -> Environment: ...
    @staticmethod
    def replay(
        lake: str | os.PathLike[str],
        *,
        context: str | None = None,
        snapshot: int | None = None,
        missing_edge: str = "error",
        step_cpu_seconds: int | None = None,
        worker_memory_mib: int | None = None,
    ) -> Environment:
        """Opens `replay-v0` over a lake."""
    @property
    def recorded_name(self) -> str:
        """The name of the environment whose compiler made the states."""
    def recorded_benchmarks(self) -> list[str] | None:
        """The URIs of the lake's benchmarks in order; None without a lake."""
    def coverage(self) -> Coverage:
        """What the sessions were asked for, and what the lake knows."""
    def end_recording(self) -> None:
        """Ends what the environment records by itself, and closes all its sessions then."""
    @staticmethod
    def own(
        make: Callable[[], object],
        class_name: str,
        declaration: Mapping[str, object],
        programs: Sequence[tuple[str, bytes]],
    ) -> Environment:
        """An environment whose compiler is a Python class: `make` returns a new instance for each
        episode.
        """
    @property
    def name(self) -> str: ...
    @property
    def compiler(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def state_space(self) -> str: ...
    @property
    def action_spaces(self) -> dict[str, list[tuple[str, str, _Flags]]]:
        """The action spaces: name, and for each action its name, pipeline and flags."""
    @property
    def observation_spaces(self) -> list[tuple[str, str, list[str], bool]]:
        """The observation spaces: name, type, names of features, whether of the benchmark alone."""
    @property
    def machine_spaces(self) -> list[str]:
        """The names of the spaces that belong to the machine. Their places come after those of the
        observation spaces.
        """
    @property
    def reward_spaces(self) -> list[tuple[str, str, str | None, bool]]:
        """The reward spaces: name, cost, the baseline to which it is scaled, and whether it is
        computed only where it is wanted.
        """
    def session(self) -> Session:
        """Opens a session without an episode."""
    def benchmark(self, uri: str) -> Benchmark:
        """Returns the benchmark that a URI names."""
    def benchmarks(self, patterns: Sequence[str]) -> list[str]:
        """Returns the URIs that patterns name."""
    def datasets(self) -> list[tuple[str, str, str, str, int | None, str]]:
        """The datasets: name, URI, description, licence, size and a pattern to begin with."""

@final
class Session:
    """One live instance of a compiler, used by one thread at a time."""
    def start(
        self, benchmark: Benchmark, action_space: str, observed: Sequence[int]
    ) -> tuple[str, list[tuple[str, int]], list[Any]]:
        """Begins an episode. Returns the id of the initial state, the baselines, and observations."""
    def step(
        self, actions: Sequence[int], observed: Sequence[int]
    ) -> tuple[list[Step], list[Any], BaseException | None]:
        """Applies actions in order, until one ends the episode. An error comes with the steps before
        it, which were taken all the same.
        """
    def observe(self, space: int) -> Any:
        """Looks at the present state."""
    def want(self, rewards: Sequence[int]) -> None:
        """Has the rewards of these spaces computed from the next step on, where they take an
        observation of their own.
        """
    def fork(self) -> Session:
        """Opens a second session in the same state."""
    def set_counts(self, runtimes: int, warmups: int, buildtimes: int) -> None:
        """Has the program run and built so often for an observation."""
    def text(self, state: bytes) -> str:
        """Returns a serialised state as text."""
    def close(self) -> None:
        """Ends the session, and with it its worker if no fork uses it."""

@final
class Step:
    """A step that a session took."""
    @property
    def state_id(self) -> str | None:
        """The id of the state, 40 hexadecimal digits; None after a failure of the compiler."""
    @property
    def changed(self) -> bool:
        """Whether the state changed."""
    @property
    def end_of_episode(self) -> bool:
        """Whether the episode ends, with the failure or by the environment."""
    @property
    def action_space_changed(self) -> bool:
        """Whether the action space changed."""
    @property
    def error(self) -> str | None:
        """How the compiler failed, if it did."""
    @property
    def rewards(self) -> list[float]:
        """The reward in each space; NaN where there is none, as after a failure."""
    @property
    def compiler_seconds(self) -> float:
        """The time that the compiler took, in seconds."""

@final
class Recording:
    """A run of sessions that is recorded in a lake, with the right to write to it."""
    def __new__(
        cls,
        lake: str | os.PathLike[str],
        environment: Environment,
        *,
        action_space: str | None = None,
        keyframes: int | None | str = ...,
        observe: Sequence[str] | None = None,
        rewards: Sequence[str] | None = None,
        audit: int | None = None,
        seal: bool = True,
    ) -> Recording: ...
    def session(self, policy: str = "", seed: int = 0) -> Session:
        """Opens a session whose episodes are recorded."""
    def flush(self) -> None:
        """Waits until everything recorded so far is durable."""
    def close(self) -> None:
        """Ends the run, makes it durable and, if it was asked to, seals it. Its sessions can record no
        more.
        """

def step_all(
    sessions: Sequence[Session], actions: Sequence[Sequence[int]], observed: Sequence[int]
) -> list[tuple[list[Step], list[Any], BaseException | None]]:
    """Applies one list of actions in each session, all sessions at once."""
def generate(
    lake: str | os.PathLike[str],
    benchmarks: Sequence[str],
    *,
    steps: int | None = None,
    states: int | None = None,
    episodes: int | None = None,
    environment: str | None = None,
    action_space: str | None = None,
    policy: str | None = None,
    objective: str | None = None,
    episode_length: int | None = None,
    seed: int = 0,
    jobs: int | None = None,
    shard: str | None = None,
    keyframes: int | None | str = ...,
    observe: Sequence[str] | None = None,
    rewards: Sequence[str] | None = None,
    step_cpu_seconds: int | None = None,
    worker_memory_mib: int | None = None,
    audit: int | None = None,
    resume: bool = False,
    seal: bool = True,
    flags: Sequence[str] | None = None,
    progress: bool | None = None,
) -> RunSummary: ...
def unpickled_benchmark(
    uri: str,
    program: bytes,
    provenance: Sequence[str],
    execution: str | None,
    is_named_by_caller: bool,
) -> Benchmark:
    """Returns the benchmark that was pickled as these parts."""
def check_semantics(
    environment: Environment, action_space: str, benchmark: Benchmark, actions: Sequence[int]
) -> tuple[bool, list[str], list[str]]:
    """Plays actions in two workers, and compares what the program does then with what it does
    untouched.
    """
def environments() -> list[str]:
    """The names of the environments of this package; the default comes first."""
def before_fork() -> None:
    """Ends the idle threads of this process, which is about to fork: they park in a table of all
    threads that the fork would inherit without them. Threads of a query under way stay.
    """
def begin(worker: str | os.PathLike[str], is_command: bool) -> None:
    """Has worker processes execute the program at `worker`, and the library write its warnings to
    standard error, or what the variable `STEPLAKE_LOG` selects. A process calls it once.
    """
def compiler() -> str:
    """The compiler of `llvm-v0`, with its exact build."""
def command_line(line: Sequence[str]) -> int:
    """Runs a command line, whose first word is the name of the program, and returns the exit code."""
