"""What a notebook shows of a lake, and of an answer: HTML without scripts, in its own colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from steplake._steplake import Lake

_RUNS_SHOWN = 5
_CHARACTERS_SHOWN = 80
_TO_TRY = (
    'lake.sql("SELECT benchmark_uri, count(*) AS steps FROM steps GROUP BY 1")',
    "next(lake.iterate_episodes())",
)
_TABLE = "margin:0;color:inherit;border-collapse:collapse"
_CELL = "text-align:left;padding:2px 16px 2px 0"
_NUMBER = "text-align:right;padding:2px 16px 2px 0"


def page(lake: Lake) -> str:
    """Return what a lake is and holds, and what to try."""
    if len(lake.contexts) > 1:
        contexts = [(name, f"lake.context({name!r})") for name in lake.contexts]
        facts = [("lake", str(lake.path))]
        return f"<div>{_table((), facts)}{_heading('Contexts')}{_table((), contexts)}</div>"
    info = lake.info()
    if lake.snapshot is None:
        snapshot = f"the newest rows: snapshot {info['snapshot']} and the hot log"
    else:
        snapshot = f"snapshot {lake.snapshot}"
    facts = [
        ("lake", str(lake.path)),
        ("read at", snapshot),
        ("environment", f"{info['environment']} ({info['compiler']}, {info['target']})"),
        ("action space", f"{info['action_space']} ({info['actions']} actions)"),
        ("observations", ", ".join(info["observations"])),
        ("rewards", ", ".join(info["rewards"])),
    ]
    tables = [(name, about["rows"]) for name, about in info["tables"].items()]
    runs = [_run(run) for run in info["runs"][: -_RUNS_SHOWN - 1 : -1]]
    parts = [
        _table((), facts),
        _heading("Tables"),
        _table(("table", "rows"), tables),
        _heading(f"Last runs, of {len(info['runs']):,}"),
        _table(("run", "started (UTC)", "complete", "benchmarks"), runs),
        _heading("Try"),
        _code(_TO_TRY),
    ]
    return "<div>" + "".join(parts) + "</div>"


def answer(columns: Sequence[str], rows: Sequence[Sequence[object]], count: int) -> str:
    """Return the first rows of an answer, and the number of all."""
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    numbers = [any(isinstance(value, int | float) for value in column) for column in values]
    table = _table(columns, [[_cell(value) for value in row] for row in rows], numbers)
    size = f"{count:,} row" + ("s" if count != 1 else "")
    text = size if len(rows) == count else f"the first {len(rows)} of {size}"
    return f"<div>{table}<div>{text}</div></div>"


def _cell(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else "" if value is None else str(value)
    return text if len(text) <= _CHARACTERS_SHOWN else text[:_CHARACTERS_SHOWN] + "…"


def _run(run: dict[str, Any]) -> tuple[int, str, str, str]:
    started = datetime.fromtimestamp(run["started_at_ms"] / 1000, UTC)
    arguments = run["arguments"]
    benchmarks = arguments.get("benchmarks", "") if isinstance(arguments, dict) else arguments
    shown = " ".join(benchmarks) if isinstance(benchmarks, list) else str(benchmarks)
    if len(shown) > _CHARACTERS_SHOWN:
        shown = shown[:_CHARACTERS_SHOWN] + "…"
    done = "yes" if run["finished"] else "no"
    return run["run_id"], f"{started:%Y-%m-%d %H:%M}", done, shown


def _heading(text: str) -> str:
    return f'<div style="margin-top:8px"><b>{escape(text)}</b></div>'


def _code(lines: Iterable[str]) -> str:
    text = "\n".join(escape(line) for line in lines)
    return f'<pre style="margin:2px 0">{text}</pre>'


def _table(
    head: Sequence[str], rows: Sequence[Sequence[object]], numbers: Sequence[bool] = ()
) -> str:
    """Return a table; numbers stand at the right."""
    if not numbers:
        numbers = [isinstance(value, int) for value in rows[0]] if rows else [False] * len(head)

    def line(tag: str, values: Sequence[object]) -> str:
        cells = (
            f'<{tag} style="{_NUMBER if is_number else _CELL}">{_shown(value)}</{tag}>'
            for value, is_number in zip(values, numbers, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    top = f"<thead>{line('th', head)}</thead>" if head else ""
    body = "".join(line("td", row) for row in rows)
    return f'<table style="{_TABLE}">{top}<tbody>{body}</tbody></table>'


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else escape(str(value))
