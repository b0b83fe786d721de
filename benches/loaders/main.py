"""Measures loaders against each other: rows per second into tensors, memory, and the first batch.

    python main.py DATA FOLDER [NAME...] [--rounds N] [--python REQUIREMENTS=PATH]

DATA is what `data.py` made. FOLDER takes the formats that loaders write of their own, and is used
again where it holds them. A NAME is that of a contestant; by default all take part. Each epoch
runs in a process of its own, with its files in the cache of the operating system. In each round
the contestants take turns, and a ratio is the median over rounds of that to the tensor of the same
round. Run it where nothing else runs.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import contestants

ORDERS = ["shuffled", "sequential"]
SAMPLE_S = 0.1
BASELINE = "tensor"


def descendants(process):
    """Return a process and all that it started, directly or not."""
    found = [process]
    for pid in found:
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found


def proportional_bytes(process):
    """Return the memory of a process and its workers, mapped pages counted, shared ones divided."""
    total = 0
    for pid in descendants(process):
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(1024 * int(size) for size in re.findall(r"^Pss:\s+(\d+)", rollup, re.M))
    return total


class Bench:
    """What all processes of a run have in common."""

    def __init__(self, arguments):
        self.data = arguments.data
        self.folder = arguments.folder
        self.batch_rows = arguments.batch_rows
        self.limit_s = arguments.limit_s
        self.pythons = dict(one.split("=", 1) for one in arguments.python)

    def own_folder(self, kind):
        """Return the folder of a contestant's own format."""
        return self.folder / re.sub(r"\W+", "-", kind.reads or kind.name)

    def run(self, what, kind, *seed):
        """Run a part in a process of its own; return what it found, or what went wrong."""
        python = self.pythons.get(kind.environment, sys.executable)
        script = Path(__file__).with_name("epoch.py")
        line = [python, script, what, kind.name, self.data / "transitions", self.own_folder(kind)]
        line += [self.batch_rows, *seed]
        with subprocess.Popen(
            list(map(str, line)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            late = threading.Timer(self.limit_s, process.kill)
            late.start()
            peak = Peak(process.pid)
            out, errors = process.communicate()
            late.cancel()
            pss_peak = peak.stop()
        if process.returncode:
            lines = errors.strip().splitlines() or [f"over {self.limit_s} s"]
            return {"error": f"over {self.limit_s} s" if process.returncode == -9 else lines[-1]}
        return {**json.loads(out.strip().splitlines()[-1]), "pss_peak": pss_peak}

    def prepare(self, kind):
        """Write a contestant's own format, unless it is there."""
        folder = self.own_folder(kind)
        done = folder / "prepared.json"
        if not done.exists():
            folder.mkdir(parents=True)
            found = self.run("prepare", kind)
            assert "error" not in found, (kind.name, found)
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            done.write_text(json.dumps({**found, "bytes": size}))
        return json.loads(done.read_text())

    def warm(self, kind):
        """Read all files of a contestant, so that no epoch waits for the disk."""
        for folder in (self.data / "transitions", self.own_folder(kind)):
            for path in folder.rglob("*"):
                if path.is_file():
                    with path.open("rb") as file:
                        while file.read(2**24):
                            pass


class Peak:
    """Samples the memory of a process and its workers until it is stopped."""

    def __init__(self, process):
        self.process = process
        self.bytes = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.sample)
        self.thread.start()

    def sample(self):
        """Sample at a distance that costs little."""
        while not self.ended.wait(SAMPLE_S):
            self.bytes = max(self.bytes, proportional_bytes(self.process))

    def stop(self):
        """Return the highest sample."""
        self.ended.set()
        self.thread.join()
        return self.bytes


def prepare(bench, kinds):
    """Write all formats, and print what that cost."""
    print(f"{'format of its own':32} {'MiB':>8} {'written in':>12}")
    for kind in kinds:
        found = bench.prepare(kind)
        if not kind.reads and found["bytes"] > 0:
            print(f"{kind.name:32} {found['bytes'] / 2**20:8.0f} {found['prepare_s']:10.1f} s")


def check(bench, kinds):
    """Compare the batches of all contestants; return those that gave the rows that were written."""
    print(f"\n{'checked':32} {'batches in order':>17} {'rows in any order':>18} spread  right")
    right = []
    for kind in kinds:
        one, other = bench.run("check", kind), bench.run("check", kind, 0)
        error = one.get("error") or other.get("error")
        if error:
            print(f"{kind.name:32} {error}", flush=True)
            continue
        good = one["same_order"] and other["same_rows"]
        right += [kind] * good
        spread = other["spread"]
        print(
            f"{kind.name:32} {one['batches']:>17} {other['rows']:>18} {spread:6.2f}  {good}",
            flush=True,
        )
    return right


def measure(bench, kinds, rounds):
    """Let the contestants take turns; return what each round found."""
    found = {}
    for number in range(rounds):
        for order in ORDERS:
            for kind in kinds:
                bench.warm(kind)
                seed = [number] if order == "shuffled" else []
                one = bench.run("time", kind, *seed)
                found.setdefault((order, kind.name), []).append(one)
                print(f"round {number}, {order}, {kind.name}: {json.dumps(one)}", file=sys.stderr)
    return found


def rate(one):
    """Return rows per second of an epoch."""
    return one["rows"] / one["epoch_s"]


def show(found, kinds):
    """Print the medians of all rounds, and the ratios of rows per second to the tensor."""
    for order in ORDERS:
        print(
            f"\n{order:32} {'rows/s':>12} {'of tensor':>10} {'peak MiB':>9} {'less imports':>13}"
            f" {'first batch':>12} {'resume':>10}  shuffles among"
        )
        for kind in kinds:
            rounds = found[order, kind.name]
            errors = [one["error"] for one in rounds if "error" in one]
            if errors:
                print(f"{kind.name:32} {errors[0]}")
                continue
            ratios = [
                rate(one) / rate(base)
                for one, base in zip(rounds, found.get((order, BASELINE), []))
            ]
            ratio = f"{statistics.median(ratios):.3f}" if ratios else ""
            peaks = [max(one["pss_peak"], one["rss_peak"]) for one in rounds]
            own = [peak - one["rss_imports"] for peak, one in zip(peaks, rounds)]
            first = statistics.median(one["first_batch_s"] for one in rounds)
            resumes = [one["resume_s"] for one in rounds if one["resume_s"] is not None]
            resume = f"{statistics.median(resumes):8.3f} s" if resumes else ""
            print(
                f"{kind.name:32} {statistics.median(map(rate, rounds)):12,.0f} {ratio:>10}"
                f" {statistics.median(peaks) / 2**20:9,.0f} {statistics.median(own) / 2**20:13,.0f}"
                f" {first:10.3f} s {resume:>10}  {kind.shuffles if order == 'shuffled' else ''}"
            )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="contestants; by default all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-rows", type=int, default=4096)
    parser.add_argument("--limit-s", type=int, default=600, help="seconds for one process")
    parser.add_argument(
        "--python", action="append", default=[], metavar="REQUIREMENTS=PATH",
        help="the Python of those contestants that need other requirements",
    )
    arguments = parser.parse_args()
    kinds = [contestants.BY_NAME[name] for name in arguments.names] or contestants.ALL
    bench = Bench(arguments)
    began = time.perf_counter()
    print((arguments.data / "about.json").read_text(), f"batches of {arguments.batch_rows}")
    # Threads that wait for each other suffer most where something else runs.
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before\n")
    prepare(bench, kinds)
    kinds = check(bench, kinds)
    show(measure(bench, kinds, arguments.rounds), kinds)
    print(f"\nin {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
