"""Dedup as a job on Apache Spark, for more steps than one machine should count.

The job reads the recorded steps of one or more lakes, and writes the tables that ``steplake dedup``
writes: `state_transitions`, `conflicts` and `failures`, equal to the row. ``steplake dedup
--counted OUTPUT`` makes them those of a lake. The job also compares the tables that lakes have with
those that follow from their steps.

    python -m steplake.spark LAKE... OUTPUT
    python -m steplake.spark --verify LAKE...
    spark-submit --master ... spark.py LAKE... OUTPUT

A lake is a local folder or the address of a published lake. Spark and deltalake both read it, so
an address in S3 begins with ``s3a://``. Of several contexts, it is the first; the others are lakes
too, in ``contexts/`` below it. Only sealed steps count: run ``steplake seal`` before. The driver
needs ``pip install pyspark deltalake``; the executors need nothing. This file imports no other
module of the package, so ``spark-submit`` takes it by itself.

The rules are those of ``crates/lake/src/layers/rule.rs`` and ``queries/dedup.sql``. The job is
Spark SQL. No row passes through Python, and the driver only holds the lists of files, runs and
actions. The steps are shuffled twice: by episode, to find the state before each step, and by ranges
of ``state_key``, to count. One task sorts all steps out of one state, on disk if they are many.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, NamedTuple

#: A folder or an address.
_Place = str | os.PathLike[str]

#: The derived tables, and the order of the rows of each.
_ORDERS = {
    "state_transitions": ["state_key", "state_id", "action"],
    "conflicts": ["state_key", "state_id", "action", "next_state_id"],
    "failures": ["state_key", "state_id", "action IS NULL", "action"],
}

#: The tables that the job reads.
_TABLES = ["steps", "episodes", *_ORDERS]

#: The version of the note that says what was counted.
_NOTE_VERSION = 1

#: The columns of steps that are read, besides the rewards.
_STEP_COLUMNS = ["episode_id", "step_index", "action", "state_key", "state_id", "wall_time_us"]

#: How many steps a part of a shuffle has on average: some hundred megabytes are sorted at a time.
_STEPS_PER_PART = 500_000

#: The steps, each with the step before it, and with the failure of its episode.
_VISITS = """
SELECT s.*, kind, detail, action IS NULL AND coalesce(at_start, false) AS is_failed_start,
       lag(step_index) OVER (PARTITION BY s.episode_id ORDER BY step_index) AS last_index,
       lag(state_key) OVER (PARTITION BY s.episode_id ORDER BY step_index) AS last_key,
       lag(state_id) OVER (PARTITION BY s.episode_id ORDER BY step_index) AS last_id
FROM {steps} AS s LEFT JOIN (
  SELECT episode_id, outcome AS kind, detail, steps = 0 AS at_start
  FROM {episodes}
  WHERE outcome NOT IN ('complete', 'ended')
) AS failed ON s.episode_id = failed.episode_id
"""

#: An edge for each step with an action, and for each episode on whose first state the compiler
#: failed: that edge has no action. A failure has no next state.
_EDGES = """
SELECT if(is_failed_start, state_key, last_key) AS state_key,
       CASE WHEN is_failed_start THEN state_id
            WHEN last_index = step_index - 1 AND last_id IS NOT NULL THEN last_id
            ELSE raise_error(concat('step ', step_index, ' of episode ', episode_id,
                                    ' does not follow'))
       END AS state_id,
       action,
       if(is_failed_start, NULL, state_key) AS next_state_key,
       if(is_failed_start, NULL, state_id) AS next_state_id,
       wall_time_us,
       struct({first}) AS step
FROM {{visits}}
WHERE is_failed_start AND state_id IS NOT NULL
   OR action IS NOT NULL AND NOT array_contains({retracted}, action)
"""

#: The edges, each once. No two steps have the same episode and index, so these alone decide which
#: step is the first.
_COUNTED = """
SELECT state_key, state_id, action, next_state_key, next_state_id,
       count(*) AS count, sum(wall_time_us) AS wall_time_us, min(step) AS first
FROM {edges}
GROUP BY state_key, state_id, action, next_state_key, next_state_id
"""

#: The edges, with what tells the tables of each: how many results its (state, action) has, and its
#: place among them.
_RANKED = """
SELECT *, count(next_state_id) OVER (PARTITION BY state_key, state_id, action) AS results,
       row_number() OVER (PARTITION BY state_key, state_id, action
                          ORDER BY next_state_id IS NULL, count DESC, next_state_id) AS place
FROM {counted}
"""

#: How the compiler failed on an edge.
_KIND = """
ifnull(first.kind, raise_error(concat('episode ', first.episode_id, ' has no state after step ',
                                      first.step_index, ', and its row no failure')))
"""

#: The keys of rows that two tables do not share, by the rows of both: a row has the `side` 1 if it
#: is of the lake, and -1 if it was counted. A row that comes twice on one side is not shared.
_DIFFERENCES = """
SELECT {{lake}} AS lake, {{table}} AS table, {key},
       CASE WHEN min(surplus) > 0 THEN 'only in the lake'
            WHEN max(surplus) < 0 THEN 'only counted'
            ELSE 'differs' END AS difference
FROM (SELECT {columns}, sum(side) AS surplus FROM {{rows}} GROUP BY {columns})
WHERE surplus != 0
GROUP BY ALL
"""


def deduplicate(
    spark: Any,
    lakes: _Place | Sequence[_Place],
    output: _Place,
    *,
    format: str = "parquet",
    storage_options: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Count the steps of lakes, and write the derived tables.

    Each table is a folder of `output` by its name, with the columns of `derived_tables`. The files
    have disjoint ranges of ``state_key``, in the order of their names, and the rows of a file have
    the order of the table. The folder ``counted`` is written last: its one file says, as JSON, which
    files of steps of which lakes were counted, and how many rows were written.
    ``steplake dedup --counted`` compares a lake with it before it takes the tables.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session.
    lakes : str, os.PathLike or a sequence of them
        The lakes, as in `derived_tables`.
    output : str or os.PathLike
        The folder or the address of the tables.
    format : str, optional
        The format of the tables: ``"delta"`` if the session has Delta's data source.
    storage_options : mapping of str, optional
        As in `derived_tables`.

    Returns
    -------
    dict of int
        The number of rows of each table.

    Raises
    ------
    pyspark.errors.AnalysisException
        If one of the tables is there.
    pyspark.errors.PySparkException
        If a step does not follow the one before it, or nothing explains a failure. The lake is
        damaged; ``steplake verify`` says where. Tables that are written by then stay.
    FileNotFoundError, ValueError, ImportError
        As in `derived_tables`.
    """
    opened = _opened(spark, lakes, storage_options)
    ranked, rewards = _ranked(spark, opened)
    rows = {}
    with _on_disk(ranked):
        for name, table in _tables(ranked, rewards).items():
            if name != "state_transitions":
                # The ranges of the edges would be many files of few rows.
                table = table.repartitionByRange("state_key")
            order = map(_imported("pyspark.sql.functions").expr, _ORDERS[name])
            place = f"{_address(output)}/{name}"
            table = table.sortWithinPartitions(*order)
            table.write.format(format).option("compression", "zstd").save(place)
            rows[name] = spark.read.format(format).load(_literal(place)).count()
    counted = [_counted(lake, numbers) for lake, numbers in _numbered(opened)]
    note = {"version": _NOTE_VERSION, "format": format, "rows": rows, "lakes": counted}
    line = spark.sql("SELECT :note AS note", {"note": json.dumps(note)})
    line.coalesce(1).write.text(f"{_address(output)}/counted")
    return rows


def _counted(lake: _Lake, numbers: Mapping[int, int]) -> dict[str, Any]:
    """Return what was counted of a lake whose runs have these numbers in the tables."""
    identity = lake.lists.identity
    actions = identity["action_space"]["actions"]
    return {
        "address": lake.address,
        "version": lake.version,
        "identity": identity,
        "retracted": [actions[number]["name"] for number in sorted(lake.retracted)],
        "runs": {run["uid"]: numbers.get(run["run_id"], run["run_id"]) for run in lake.lists.runs},
        "steps": lake.step_files,
    }


def _numbered(lakes: Sequence[_Lake]) -> list[tuple[_Lake, Mapping[int, int]]]:
    """Return each lake with the numbers that its runs have when all are counted together."""
    numbers = _run_numbers(lakes)
    return [(lake, numbers.get(lake.address, {})) for lake in lakes]


def derived_tables(
    spark: Any,
    lakes: _Place | Sequence[_Place],
    *,
    storage_options: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the derived tables that follow from the sealed steps of lakes.

    The tables of one lake are those of ``steplake dedup``. The tables of several lakes are those of
    ``steplake merge`` and then ``steplake dedup``, if nothing in the lakes is hot. So the order
    that decides which step is the first is that of a merge: runs are numbered by their start and by
    their random names, and episodes by the numbers of their runs. The order of the lakes does not
    matter. No two lakes may have the same run, as copies of a lake have. What else a merge compares
    is not compared, such as programs and observations.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session. If it has Delta's data source, that reads the tables; otherwise their files
        are read as Parquet.
    lakes : str, os.PathLike or a sequence of them
        Folders of lakes, or addresses of published ones. Of each, the newest version counts.
    storage_options : mapping of str, optional
        What deltalake needs to reach the addresses, besides the environment.

    Returns
    -------
    dict of pyspark.sql.DataFrame
        The tables by name, in no order. The columns have the names and the order of those of a
        lake: ``state_id`` and ``next_state_id`` are binary, ``action`` and ``first_step_index``
        int, ``kind`` and ``detail`` string, rewards double, and all others bigint. No value is
        converted: a lake has signed integers only. In the Parquet that Spark writes, a state id is
        a BYTE_ARRAY, and all columns are optional.

    Raises
    ------
    FileNotFoundError
        If one of the lakes is none.
    ValueError
        If lakes cannot be counted together: they are of different compilers, or have different
        actions; two have the same run; or one has rewards that another lacks in between.
    ImportError
        If pyspark or deltalake is not installed.
    """
    return _tables(*_ranked(spark, _opened(spark, lakes, storage_options)))


def verify(
    spark: Any,
    lakes: _Place | Sequence[_Place],
    *,
    storage_options: Mapping[str, str] | None = None,
) -> Any:
    """Compare the derived tables of each lake with those that follow from its steps.

    Values are compared as Spark compares keys: nulls are equal, and 0.0 equals -0.0.

    Parameters
    ----------
    spark, lakes, storage_options
        As in `derived_tables`. Each lake is compared by itself.

    Returns
    -------
    pyspark.sql.DataFrame
        A row for each key that has other rows in the lake: ``lake``, ``table``, ``state_id``,
        ``action``, ``next_state_id`` (of conflicts), and the ``difference``: ``only in the lake``,
        ``only counted`` or ``differs``. A row that the lake has twice is ``only in the lake``. The
        rows are computed at once, and the session keeps them.

    Raises
    ------
    ValueError
        If the tables of a lake lack sealed steps, so that a dedup has to come first. If they lie
        in several layers and the session lacks Delta's data source, which leaves out deleted rows:
        ``steplake dedup --full`` makes one layer.
    pyspark.errors.PySparkException
        As in `deduplicate`.
    FileNotFoundError, ImportError
        As in `derived_tables`.
    """
    found = []
    for lake in _opened(spark, lakes, storage_options):
        ranked, rewards = _ranked(spark, [lake])
        tables = _tables(ranked, rewards)
        own = {name: lake.derived(name, table.columns) for name, table in tables.items()}
        with _on_disk(ranked):
            differences = _union(
                _differences(lake, name, own[name], table) for name, table in tables.items()
            )
            # They are few, and computed here, while the edges are at hand.
            differences.persist().count()
        found.append(differences)
    return _union(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit code.

    It is that of ``steplake`` for the same: 2 for wrong arguments, 3 if there is no lake, 4 if
    `verify` finds differences, and 1 if a package is missing.
    """
    parser = argparse.ArgumentParser(
        prog="steplake.spark",
        description="Counts the sealed steps of lakes on Spark, as `steplake dedup` does.",
        usage="%(prog)s [options] LAKE... OUTPUT\n       %(prog)s [options] --verify LAKE...",
    )
    parser.add_argument("places", nargs="+", metavar="LAKE", help="a lake, and OUTPUT at last")
    parser.add_argument("--format", default="parquet", help="the format of OUTPUT, e.g. delta")
    parser.add_argument("--verify", action="store_true", help="compare what the lakes have")
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what deltalake needs to reach an address",
    )
    given = parser.parse_args(arguments)
    if not given.verify and len(given.places) < 2:
        parser.error("name the lakes, and then the output")
    options = dict(option.partition("=")[::2] for option in given.storage_option)
    try:
        spark = _imported("pyspark.sql").SparkSession.builder.appName("steplake").getOrCreate()
        if given.verify:
            return _say_differences(verify(spark, given.places, storage_options=options))
        *lakes, output = given.places
        rows = deduplicate(spark, lakes, output, format=given.format, storage_options=options)
    except (ImportError, FileNotFoundError, ValueError) as error:
        print(error, file=sys.stderr)
        return {ImportError: 1, FileNotFoundError: 3}.get(type(error), 2)
    print(f"{rows['state_transitions']:,} transitions, {rows['conflicts']:,} conflicts,", end=" ")
    print(f"{rows['failures']:,} failures")
    return 0


def _say_differences(differences: Any) -> int:
    """Print how many differences there are of each kind, and some of them."""
    kinds = differences.groupBy("lake", "table", "difference").count()
    for kind in kinds.orderBy("lake", "table", "difference").collect():
        print(f"{kind['lake']}: {kind['table']}: {kind['count']:,} rows: {kind['difference']}")
    if differences.isEmpty():
        print("the derived tables are those that follow from the steps")
        return 0
    differences.show(20, truncate=False)
    return 4


def _ranked(spark: Any, lakes: Sequence[_Lake]) -> tuple[Any, list[str]]:
    """Return the edges of lakes, as `_RANKED` has them, and the names of the reward columns."""
    rewards = max((lake.rewards for lake in lakes), key=len)
    numbered = _numbered(lakes)
    tables = {
        name: _union(_renumbered(lake.table(name, columns), runs) for lake, runs in numbered)
        for name, columns in {
            "steps": [*_STEP_COLUMNS, *rewards],
            "episodes": ["episode_id", "steps", "outcome", "detail"],
        }.items()
    }
    retracted = sorted(set().union(*(lake.retracted for lake in lakes)))
    query = _EDGES.format(
        first=_names(["episode_id", "step_index", "kind", "detail", *rewards]),
        retracted=f"CAST(array({', '.join(map(str, retracted))}) AS ARRAY<INT>)",
    )
    parts = _parts(lakes)
    tables["steps"] = tables["steps"].repartition(parts, "episode_id")
    edges = spark.sql(query, visits=spark.sql(_VISITS, **tables))
    edges = edges.repartitionByRange(parts, "state_key")
    return spark.sql(_RANKED, counted=spark.sql(_COUNTED, edges=edges)), rewards


def _parts(lakes: Iterable[_Lake]) -> int:
    """Return in how many parts rows are shuffled."""
    return 1 + sum(lake.steps for lake in lakes) // _STEPS_PER_PART


def _tables(ranked: Any, rewards: Sequence[str]) -> dict[str, Any]:
    """Return the derived tables that follow from edges."""
    key = ["state_id", "state_key", "action"]
    first = ["first.episode_id AS first_episode_id", "first.step_index AS first_step_index"]
    led_to = [*key, "next_state_id", "next_state_key", "count", "wall_time_us", *first]
    led_to += [f"first.{name} AS {name}" for name in map(_name, rewards)]
    failed = [*key, f"{_KIND} AS kind", "first.detail AS detail", "count", *first]
    led = ranked.where("next_state_id IS NOT NULL")
    return {
        "state_transitions": led.where("place = 1").selectExpr(*led_to),
        "conflicts": led.where("results > 1").selectExpr(*led_to),
        "failures": ranked.where("next_state_id IS NULL").selectExpr(*failed),
    }


def _differences(lake: _Lake, name: str, own: Any, counted: Any) -> Any:
    """Return the keys of the rows that two forms of a derived table do not share."""
    led_to = "next_state_id" if name == "conflicts" else "CAST(NULL AS BINARY)"
    query = _DIFFERENCES.format(
        columns=_names(counted.columns), key=f"state_id, action, {led_to} AS next_state_id"
    )
    rows = _union([own.selectExpr("*", "1 AS side"), counted.selectExpr("*", "-1 AS side")])
    # Both ways to group have the state.
    rows = rows.repartition(_parts([lake]), "state_id")
    return lake.spark.sql(query, rows=rows, lake=lake.address, table=name)


@contextmanager
def _on_disk(ranked: Any) -> Iterator[None]:
    """Keep edges on the disks of the executors, so that several jobs can read them.

    `spark.sql` would undo that for a table that it is given.
    """
    ranked.persist(_imported("pyspark").StorageLevel.DISK_ONLY)
    try:
        yield
    finally:
        ranked.unpersist()


class _Lists(NamedTuple):
    """What a lake has beside its tables, as ``lake.json`` and the log of snapshots have it."""

    identity: dict[str, Any]
    #: Each with ``run_id``, ``uid`` and ``started_at_ms``.
    runs: list[dict[str, Any]]
    #: Each with ``kind`` and ``value``.
    retractions: list[dict[str, Any]]


@dataclass(frozen=True)
class _Lake:
    """The newest version of a lake, in which all tables are of one snapshot.

    `address` has no slash at its end. `folder` holds the tables: ``data`` of a folder, ``segments``
    of a published lake. See ``docs/FORMAT.md``.
    """

    spark: Any
    address: str
    folder: str
    version: int
    storage_options: Mapping[str, str] | None

    @classmethod
    def open(cls, spark: Any, address: str, storage_options: Mapping[str, str] | None) -> _Lake:
        """Find the newest version that all tables have: they get a version one after another."""
        tables = _imported("deltalake").DeltaTable
        for folder in ("data", "segments"):
            places = [f"{_of_deltalake(address)}/{folder}/{name}" for name in _TABLES]
            if tables.is_deltatable(places[0], storage_options):
                known = [tables(place, storage_options=storage_options) for place in places]
                version = min(table.version() for table in known)
                return cls(spark, address, folder, version, storage_options)
        raise FileNotFoundError(
            f"there is no lake at {address}: neither data/steps nor segments/steps is a Delta table"
        )

    def table(self, name: str, columns: Sequence[str]) -> Any:
        """Read a table. Columns that the lake does not have are left out."""
        place = f"{self.address}/{self.folder}/{name}"
        if self._session_has_delta:
            read = self.spark.read.format("delta").option("versionAsOf", self.version).load(place)
        else:
            delta = self._delta(name)
            types = _imported("pyspark.sql.types").StructType
            # Delta writes a schema as Spark does. Files from before a column lack it.
            schema = types.fromJson(json.loads(delta.schema().to_json()))
            names = [uri.rpartition("/")[2] for uri in delta.file_uris()]
            files = [f"{_literal(place)}/{name}" for name in names]
            read = self.spark.read.schema(schema).parquet(*files) if files else None
            read = self.spark.createDataFrame([], schema) if read is None else read
        return read.select([_name(column) for column in columns if column in read.columns])

    def derived(self, name: str, columns: Sequence[str]) -> Any:
        """Read a derived table, which has to be complete."""
        delta = self._delta(name)
        uncounted = int(delta.metadata().configuration.get("steplake.uncounted_steps", "0"))
        if uncounted:
            raise ValueError(
                f"{name} of {self.address} lacks {uncounted:,} steps: run `steplake dedup` first"
            )
        if delta.protocol().reader_features and not self._session_has_delta:
            raise ValueError(
                f"{name} of {self.address} has deleted rows, which only Delta's data source leaves "
                "out: add it to the session, or make one layer with `steplake dedup --full`"
            )
        return self.table(name, columns)

    @cached_property
    def steps(self) -> int:
        """The number of rows of `steps`."""
        return int(self._delta("steps").count())

    @property
    def step_files(self) -> list[str]:
        """The files of `steps`: of each, the first digits of its digest, which are in its name."""
        names = [uri.rpartition("/")[2] for uri in self._delta("steps").file_uris()]
        return sorted(re.findall("[0-9a-f]{16}", name)[0] for name in names)

    @cached_property
    def rewards(self) -> list[str]:
        """The names of the reward columns, in order."""
        names = [field.name for field in self._delta("steps").schema().fields]
        return [name for name in names if name.startswith("reward_")]

    @property
    def retracted(self) -> set[int]:
        """The numbers of the actions whose transitions the lake has withdrawn."""
        names = {row["value"] for row in self.lists.retractions if row["kind"] == "action"}
        actions = self.lists.identity["action_space"]["actions"]
        return {number for number, action in enumerate(actions) if action["name"] in names}

    @cached_property
    def lists(self) -> _Lists:
        """What the version has beside its tables."""
        if self.folder == "segments":
            manifests = map(json.loads, self._texts("manifests"))
            # A number that a collection took has no list.
            listed = [one for one in manifests if one["list"] and one["version"] <= self.version]
            newest = max(listed, key=lambda one: one["version"])
            whole = json.loads(self._texts(f"lists/{newest['list']}.json")[0])
            return _Lists(whole["identity"], whole["runs"], whole["retractions"])
        # The second line of an entry is the digest of the first.
        entries = [json.loads(text.partition("\n")[0]) for text in self._texts("log")]
        entries = [entry for entry in entries if entry["snapshot"] <= self.version]
        runs: dict[int, Any] = {}
        retractions: list[Any] = []
        for entry in sorted(entries, key=lambda entry: entry["snapshot"]):
            if entry["whole"]:
                runs, retractions = {}, []
            runs |= {run["run_id"]: run for run in entry["runs"]}
            retractions += entry["retractions"]
        return _Lists(json.loads(self._texts("lake.json")[0]), [*runs.values()], retractions)

    def _texts(self, place: str) -> list[str]:
        """Read a small JSON file, or all of a folder, each as one text."""
        read = self.spark.read.option("pathGlobFilter", "*.json")
        rows = read.text(f"{_literal(self.address)}/{place}", wholetext=True).collect()
        return [row.value for row in rows]

    def _delta(self, name: str) -> Any:
        return _imported("deltalake").DeltaTable(
            f"{_of_deltalake(self.address)}/{self.folder}/{name}",
            version=self.version,
            storage_options=self.storage_options,
        )

    @property
    def _session_has_delta(self) -> bool:
        return "io.delta" in self.spark.conf.get("spark.sql.extensions", "")


def _opened(
    spark: Any, lakes: _Place | Sequence[_Place], storage_options: Mapping[str, str] | None
) -> list[_Lake]:
    """Open lakes, at least one."""
    places = [lakes] if isinstance(lakes, (str, os.PathLike)) else lakes
    if not places:
        raise ValueError("name at least one lake")
    return [_Lake.open(spark, _address(place), storage_options) for place in places]


def _run_numbers(lakes: Sequence[_Lake]) -> dict[str, dict[int, int]]:
    """Return the numbers that a merge gives to runs, by the address of the lake and the old number.

    They are none for one lake: it keeps its numbers.
    """
    if len(lakes) == 1:
        return {}
    _demand_common(lakes)
    runs = [
        (run["started_at_ms"], run["uid"], lake, run) for lake in lakes for run in lake.lists.runs
    ]
    numbers: dict[str, dict[int, int]] = {}
    known: dict[str, str] = {}
    for number, (_, uid, lake, run) in enumerate(sorted(runs, key=lambda run: run[:2]), 1):
        if uid in known:
            raise ValueError(
                f"run {uid} is in {known[uid]} and in {lake.address}: merge them with "
                "`steplake merge`, which takes each episode once"
            )
        known[uid] = lake.address
        numbers.setdefault(lake.address, {})[run["run_id"]] = number
    return numbers


def _renumbered(table: Any, numbers: Mapping[int, int]) -> Any:
    """Put new numbers of runs into `episode_id`: the run is in the upper 32 bits."""
    if not numbers:
        return table
    pairs = ", ".join(f"{old}L, {new}L" for old, new in numbers.items())
    run = "shiftright(episode_id, 32)"
    unlisted = f"raise_error(concat('the lake does not list run ', {run}))"
    number = f"shiftleft(ifnull(map({pairs})[{run}], {unlisted}), 32)"
    expression = f"{number} | episode_id & 4294967295"
    return table.withColumn("episode_id", _imported("pyspark.sql.functions").expr(expression))


def _demand_common(lakes: Sequence[_Lake]) -> None:
    """Demand that one lake can hold the rows of all, with the columns of one of them."""

    def compiler(identity: Mapping[str, Any]) -> list[Any]:
        fixed = [identity[name] for name in ("environment", "compiler", "target")]
        return [*fixed, identity["action_space"]["name"], identity.get("state_scheme", 1)]

    def actions(identity: Mapping[str, Any]) -> list[Any]:
        # Their flags may differ.
        meaning = ("name", "pipeline", "parameters")
        return [
            [action.get(name) for name in meaning] for action in identity["action_space"]["actions"]
        ]

    def rewards(identity: Mapping[str, Any]) -> list[Any]:
        return [*identity["rewards"]]

    for what in (compiler, actions, rewards):
        lists = {lake.address: what(lake.lists.identity) for lake in lakes}
        longest = max(lists, key=lambda address: len(lists[address]))
        for address, items in lists.items():
            if items != lists[longest][: len(items)]:
                raise ValueError(
                    f"the {what.__name__} of {address} and {longest} differ: count them one by "
                    "one, or see whether `steplake merge` can unite them"
                )


def _union(tables: Iterable[Any]) -> Any:
    """Unite tables by the names of their columns. A table has null where it lacks a column."""
    return reduce(lambda all, one: all.unionByName(one, allowMissingColumns=True), tables)


def _address(place: _Place) -> str:
    """Return an address for Spark, whose relative paths may be those of another file system."""
    text = os.fspath(place)
    return text.rstrip("/") if "://" in text else f"file://{Path(text).absolute()}"


def _of_deltalake(address: str) -> str:
    """Return an address for deltalake, which takes paths as they are and decodes addresses."""
    return address.removeprefix("file://")


def _literal(address: str) -> str:
    """Escape what stands for other characters where Spark reads files."""
    return re.sub(r"[\\*?{}\[\]]", r"\\\g<0>", address)


def _name(column: str) -> str:
    """Quote the name of a column."""
    return "`" + column.replace("`", "``") + "`"


def _names(columns: Iterable[str]) -> str:
    return ", ".join(map(_name, columns))


def _imported(name: str) -> Any:
    """Import a module of the packages that only this job needs."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(
            f"dedup on Spark needs the package {package}: `pip install pyspark deltalake` ({error})"
        ) from error


if __name__ == "__main__":
    sys.exit(main())
