"""Completes an export for training as a dataset to publish:

    lay_out.py WORK EXPORT --replay N --seed SEED --version TEXT

The folder WORK has what `release.sh` asked the lake. Into EXPORT go `programs.csv`, `actions.csv`,
`load.py`, a card with the figures, and checksums of all files.
"""

import argparse
import csv
import hashlib
import re
import shutil
import textwrap
from math import comb
from pathlib import Path

import duckdb

HERE = Path(__file__).parent
CARD_COLUMNS_MAX = 120
CONFIDENCE = 0.95

LEAK_CHECK = """\
WITH named AS (
    SELECT state_id, split FROM 'data/*.parquet'
    UNION ALL SELECT next_state_id, split FROM 'data/*.parquet'
), states AS (
    SELECT state_id, bool_or(split = 'train') AS train, bool_or(split = 'test') AS test
    FROM named GROUP BY state_id
)
SELECT count(*) FILTER (test) AS test_states, count(*) FILTER (train AND test) AS leaked FROM states
"""

FRONT_MATTER = """\
---
pretty_name: State transitions of LLVM's passes
license: mit
task_categories:
- reinforcement-learning
tags:
- compilers
- llvm
- offline-reinforcement-learning
size_categories:
- {size}
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*.parquet
  - split: test
    path: data/test-*.parquet
---
"""

HEAD = """
# State transitions of LLVM's passes

What {actions} actions, passes of LLVM, do to {programs:,} programs: {rows:,} pairs of a state and an
action, each with the next state and the rewards, over {states:,} unique states. Random episodes
took {steps:,} steps. A state is a program in LLVM's intermediate representation. The dataset has
features of the states as numbers; it has no program's text.

Recorded with {version}.

| file | what it has |
|---|---|
| `data/train-*.parquet`, `data/test-*.parquet` | the state transitions, shuffled |
| `programs.csv` | the programs: family, part of the split, licence, origin, the command that compiles them |
| `actions.csv` | the number of each action, its name and its pipeline for `opt` |
| `load.py` | ten lines that read the dataset with PyArrow: `python load.py` |
| `SHA256SUMS` | checksums of all files |

## Proof

| figure | value |
|---|---|
| replay rate | {agreeing:,} of {drawn:,} transitions drawn at random led to the same state again ({rate:.2%}); \
with {confidence:.0%} confidence, at least {bound:.2%} of all do |
| conflicts | {conflicts:,} of {transitions:,} pairs of a state and an action led to different states; \
{repeated:,} pairs were tried more than once |
| leak check | {leaked:,} of the {test_states:,} states of test rows are states of training rows |

The states are those of canonical programs: equal ids mean equal bitcode. In a conflict, the row has
the most frequent result. The bound of the replay rate is the one of Clopper and Pearson, one-sided.
{disagreements}
### How to repeat them

The leak check needs only this folder. DuckDB says how many states test rows name, and how many of
these training rows name too:

```sql
{leak_check}```

The other two need the lake that the rows are from. The same version of steplake makes it again from
the same programs, and then `data/` has the same checksums. Among steplake's files, with this folder
in `DATASET`:

```sh
tail -n +2 DATASET/programs.csv | cut -d , -f 1 >programs.txt
PROGRAMS=programs.txt make release STATES={asked}
export STEPLAKE_LAKE=release.work/lake
steplake verify --replay {asked_replay} --seed 0
steplake sql "SELECT count(*) FROM (SELECT DISTINCT state_id, action FROM conflicts)"
steplake splits check --by family --seed {seed}
```

## Split

Program families are divided, not rows: all files of a package are in one part, and so are all
programs of one generator. States that programs of both parts reach are training states, and test
rows that lead to one are left out. `split` in `programs.csv` says of each program whether its family
is for training or for test.

## What to mind

- A row is one (state, action), however often it was tried (`count`), and programs can share states.
- `reward_IrInstructionCountNorm` can be compared across programs. `…O3` and `…Oz` count instructions
  where `-O3` or `-Oz` makes the program no smaller; `programs.csv` has the instructions of each.
- Pairs of a state and an action on which the compiler failed have no next state and no row:
  {failures:,} here.
- Rewards are about the number of instructions. There is no run time and no object size.
"""

LICENCES = """
The numbers in `data/` are under the MIT licence. Each program has its own licence, which
`programs.csv` names, as SPDX or as Debian's `LicenseRef`; `steplake datasets install URI` fetches
the program, and Debian's source package has the licence's text. All of them allow passing on with
at most a notice.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path, metavar="WORK")
    parser.add_argument("folder", type=Path, metavar="EXPORT")
    parser.add_argument("--replay", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--version", required=True)
    given = parser.parse_args()
    database = duckdb.connect()
    database.execute(f"SET file_search_path = '{given.folder}'")
    programs = write_programs(database, given.work, given.folder)
    shutil.copy(given.work / "actions.csv", given.folder)
    shutil.copy(HERE / "load.py", given.folder)
    card = card_of(database, given, programs)
    (given.folder / "README.md").write_text(card, encoding="utf-8")
    (given.folder / "SHA256SUMS").write_text(checksums(given.folder), encoding="utf-8")


def write_programs(database, work, folder):
    """Writes the programs with the part that their family is of. Returns their number."""
    for table in ["coverage", "recorded"]:
        database.execute(f"CREATE TABLE {table} AS FROM '{work}/{table}.csv'")
    database.execute(
        """
        CREATE TABLE programs AS
        WITH first AS (
            SELECT DISTINCT lower(hex(state_id)) AS initial_state_id, split FROM 'data/*.parquet'
        ), families AS (
            -- Some first states of a test family may be training states, too.
            SELECT family, CASE WHEN bool_or(split = 'test') THEN 'test' ELSE 'train' END AS split
            FROM recorded LEFT JOIN first USING (initial_state_id) GROUP BY family
        )
        SELECT benchmark_uri, dataset, family, split, licence, origin, program_digest, compile_command,
               initial_state_id, IrInstructionCountO0, IrInstructionCountO3, IrInstructionCountOz,
               coalesce(episodes, 0) AS episodes, coalesce(steps, 0) AS steps,
               coalesce(transitions, 0) AS transitions
        FROM recorded JOIN families USING (family) LEFT JOIN coverage USING (benchmark_uri)
        """
    )
    database.execute(f"COPY (FROM programs ORDER BY benchmark_uri) TO '{folder}/programs.csv'")
    return database.execute("SELECT count(*) FROM programs").fetchone()[0]


def replayed(text, drawn):
    """How many of the drawn transitions agreed, and what is said of the others."""
    if "verify: sound;" not in text:
        raise SystemExit(f"the lake is not sound, so there is no release:\n{text}")
    found = re.search(r"^baselines: ([\d,]+) of ([\d,]+) programs agree", text, re.MULTILINE)
    if found is None or found[1] != found[2]:
        raise SystemExit(f"baselines differ, so there is no release:\n{text}")
    line = r"^replay: ([\d,]+) of [\d,]+ transitions agree.*\n((?:  .*\n)*)"
    found = re.search(line, text, re.MULTILINE)
    if found is None:
        raise SystemExit(f"no transition was replayed:\n{text}")
    return min(int(found[1].replace(",", "")), drawn), found[2]


def lower_bound(agreeing, drawn):
    """The smallest share of all that is not rejected: Clopper and Pearson's one-sided bound."""
    low, high = 0.0, 1.0
    failing = drawn - agreeing
    for _ in range(60):
        share = (low + high) / 2
        # The probability that no more than so many fail.
        chance = sum(
            comb(drawn, k) * (1 - share) ** k * share ** (drawn - k) for k in range(failing + 1)
        )
        low, high = (share, high) if chance < 1 - CONFIDENCE else (low, share)
    return low


def card_of(database, given, programs):
    """The card: what is published, the figures, and what the export says of itself."""
    [figures] = csv.DictReader((given.work / "figures.csv").open(encoding="utf-8"))
    figures = {name: int(value) for name, value in figures.items()}
    drawn = min(given.replay, figures["transitions"])
    verified = (given.work / f"verified.{given.replay}").read_text(encoding="utf-8")
    agreeing, others = replayed(verified, drawn)
    rows = database.execute("SELECT count(*) FROM 'data/*.parquet'").fetchone()[0]
    test_states, leaked = database.execute(LEAK_CHECK).fetchone()
    if leaked:
        raise SystemExit(f"{leaked} states of test rows are states of training rows: no release")
    exported = (given.folder / "README.md").read_text(encoding="utf-8")
    _, body = exported.split("\n---\n", 1)
    # Our own heading says what it is.
    body = re.sub(r"\A\s*# .*\n", "\n## Rows\n", body)
    body = re.sub(r"\n`sha256sum --check SHA256SUMS`.*", LICENCES, body)
    said = f"\nOf the others, `verify` says:\n\n```text\n{others}```\n" if others else ""
    head = HEAD.format(
        **figures,
        actions=len((given.work / "actions.csv").read_text(encoding="utf-8").splitlines()) - 1,
        programs=programs,
        rows=rows,
        version=given.version,
        agreeing=agreeing,
        drawn=drawn,
        rate=agreeing / drawn,
        bound=int(lower_bound(agreeing, drawn) * 10_000) / 10_000,
        confidence=CONFIDENCE,
        leaked=leaked,
        test_states=test_states,
        disagreements=said,
        leak_check=LEAK_CHECK,
        asked=(given.work / "states").read_text(encoding="utf-8").strip(),
        asked_replay=given.replay,
        seed=given.seed,
    )
    return FRONT_MATTER.format(size=size_category(rows)) + wrapped(head + body)


def size_category(rows):
    """The category of Hugging Face for so many rows."""
    names = ["1K", "10K", "100K", "1M", "10M", "100M"]
    for below, name in enumerate(names):
        if rows < 10 ** (below + 3):
            return f"{names[below - 1]}<n<{name}" if below else f"n<{name}"
    raise SystemExit(f"{rows} rows are more than this script has a category for")


def wrapped(text):
    """Breaks long lines of prose."""
    lines, is_fenced = [], False
    for line in text.splitlines():
        is_fenced ^= line.startswith("```")
        if is_fenced or line.startswith("|") or len(line) <= CARD_COLUMNS_MAX:
            lines.append(line)
        else:
            words = {"break_long_words": False, "break_on_hyphens": False}
            lines += textwrap.wrap(line, CARD_COLUMNS_MAX, **words)
    return "\n".join(lines) + "\n"


def checksums(folder):
    """The SHA-256 digests of all files, as the program `sha256sum` checks them."""
    lines = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != "SHA256SUMS":
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines)


if __name__ == "__main__":
    main()
