"""Runs a part of the benchmark for one contestant, and prints what it found as JSON.

    python epoch.py prepare|check|time NAME DATA FOLDER BATCH_ROWS [SEED]

`prepare` writes the contestant's own format, `check` compares the batches of an epoch with the
rows that were written, and `time` measures an epoch. With a seed an epoch is shuffled. `main.py`
starts a process for each.
"""

import importlib
import json
import os
import sys
import time
import warnings
from pathlib import Path

import batch
import contestants


def status_bytes(name):
    """Return a size from the status of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    raise KeyError(name)


def epoch(contestant):
    """Return the batches of one epoch."""
    return contestant.sequential() if contestant.seed is None else contestant.shuffled()


def check(contestant):
    """Read an epoch, and compare its rows with those that were written."""
    import numpy as np

    comparison = batch.Comparison(contestant.batch_rows)
    contestant.open()
    for some in epoch(contestant):
        comparison.add(some)
    return comparison.result(np.load(contestant.source.parent / "hashes.npy"))


def timed(contestant):
    """Read an epoch, a number of each row, and return rows, seconds and memory."""
    before = status_bytes("VmRSS")
    began = time.perf_counter()
    contestant.open()
    opened = time.perf_counter()
    first, rows = None, 0
    for some in epoch(contestant):
        batch.touch(some)
        rows += len(some.action)
        first = first or time.perf_counter()
    ended = time.perf_counter()
    peak = status_bytes("VmHWM")
    return {
        "rows": rows,
        "first_batch_s": first - began,
        "epoch_s": ended - opened,
        "rss_imports": before,
        "rss_peak": peak,
        "resume_s": contestant.resumed() if contestant.seed is not None else None,
    }


def main():
    what, name, source, folder, batch_rows, *seed = sys.argv[1:]
    # No library asks a server for anything, nor for a newer version of itself.
    os.environ.update(HF_HUB_OFFLINE="1", LITDATA_DISABLE_VERSION_CHECK="1")
    # A tensor that looks into a column of Arrow is not writable; nothing here writes to one.
    warnings.filterwarnings("ignore", message="The given .* is not writable")
    kind = contestants.BY_NAME[name]
    for module in kind.imports:
        importlib.import_module(module)
    contestant = kind(Path(source), Path(folder), int(batch_rows), *map(int, seed))
    if what == "prepare":
        began = time.perf_counter()
        contestant.prepare()
        result = {"prepare_s": time.perf_counter() - began}
    else:
        result = {"check": check, "time": timed}[what](contestant)
    # A line of its own: libraries print too.
    print("\n" + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
