"""Messages of the library in the words of this package.

The library is that of the command line, too: where a message gives advice, it names options, such
as ``--resume``, and commands, such as ``steplake dedup``. Here, they are arguments and methods.
"""

from __future__ import annotations

import re

_SAID: tuple[tuple[str, str], ...] = (
    # Commands that are methods here.
    (r"`steplake dedup --full`", "`lake.dedup(full=True)`"),
    (r"`steplake dedup`", "`lake.dedup()`"),
    (r"`steplake verify --repair`", "`lake.verify(repair=True)`"),
    (r"`steplake verify --replay`", "`lake.verify(replay=100)`"),
    (r"`steplake verify`", "`lake.verify()`"),
    (r"`steplake backfill --space ([^`]+)`", r'`lake.backfill("\1")`'),
    (r"`steplake backfill`", "`lake.backfill`"),
    (r"`steplake snapshots`", "`lake.snapshots()`"),
    (r"`steplake info`", "`lake.info()`"),
    (r"`steplake query (\w+)`", r'`lake.query("\1")`'),
    (r"`steplake generate`", "`steplake.generate`"),
    # Options that have another name here, or none.
    (r"`--env`", "`environment`"),
    (r"--ir none", "`keyframes=None`"),
    (r"--ir all", "`keyframes=1`"),
    (r"give queries more of it \(--spill\), give this one more memory", "give it more `memory`"),
    # Options in a sentence.
    (r"run the same command again with --resume", "make the same call with `resume=True`"),
    (r"the same command with --resume", "the same call with `resume=True`"),
    (r"another lake with --lake", "another lake"),
    (r", --objective ", ", as `objective`: "),
    (r"`--by (\w+)`", r'`by="\1"`'),
    (r"--episodes N\b", "`episodes`"),
    (
        r"`?--(by|episodes|lake|objective|resume|rewards|seed|shard|states|steps|worker-memory-mib)"
        r"(?![\w-])`?",
        r"`\1`",
    ),
    (r"`worker-memory-mib`", "`worker_memory_mib`"),
)
_RULES = tuple((re.compile(said), here) for said, here in _SAID)


def in_python(text: str) -> str:
    """Return a message that names arguments and methods of this package."""
    for said, here in _RULES:
        text = said.sub(here, text)
    return text
