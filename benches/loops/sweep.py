"""Draws the speed of point-wise addition by the number of threads, for several sizes: the paper's
Figure 7 (arXiv 2109.08267).

    python3 benches/loops/sweep.py OUT.svg [--steplake-cuda PROGRAM | --steplake PROGRAM | --cpu |
        --points FILE] [--sizes N,N,...] [--threads N,N,...] [--rounds N]

On a GPU, `steplake-cuda sweep` measures; that is the default. On the processor (`--cpu`, or
`--steplake PROGRAM`) the schedules are recorded into a lake, and `steplake measure` runs them.
There, the iterations of a parallel loop are dealt to as many threads as there are cores: more
"threads" than those are smaller pieces of the same work.

Prints a table, writes what was measured to OUT.jsonl, which `--points` draws again, and draws
OUT.svg (or .png, .pdf) if matplotlib is there.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

# Each element is read twice and written once, as 32-bit numbers.
BYTES_PER_ELEMENT = 12
# The numbers of a vector of a processor.
LANES = 8
CPU_SIZES = [1 << power for power in range(10, 25, 2)]
CPU_THREADS = [1, 2, 4, 8, 16]


def answered(program: str, arguments: list[str]) -> str:
    """Return what a program prints; end with its message if it fails."""
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True)
    except OSError as error:
        option = "--steplake-cuda" if arguments[0] == "sweep" else "--steplake"
        sys.exit(f"sweep.py: {program} cannot be run ({error.strerror}): name it by {option}")
    if done.returncode != 0:
        sys.exit(f"sweep.py: {program} failed: {done.stderr.strip()}")
    return done.stdout


def schedule(elements: int, threads: int) -> str:
    """Return the text of a state: addition, dealt to so many threads, in vectors."""
    own = elements // threads
    lanes = min(LANES, own)
    loops = [(own, " parallel")] if threads > 1 else []
    loops += [(lanes, "")] if own > lanes or not loops else []
    loops += [(1, " vectorize")] if lanes > 1 else []
    text = ["// loops-v0 state 1", f"n = {elements}", "%0 = input[n]", "%1 = input[n]"]
    text += ["%2 = add %0 %1", "output %2[n]"]
    for depth, (step, mark) in enumerate(loops):
        text.append(f"{'  ' * depth}for n by {step}{mark}")
    return "\n".join([*text, f"{'  ' * len(loops)}%2", ""])


def on_cpu(program: str, sizes: list[int], threads: list[int], rounds: int) -> list[dict]:
    """Record schedules into a lake, measure them, and return the points."""
    points = {}
    with tempfile.TemporaryDirectory() as folder:
        for elements in sizes:
            for count in (count for count in threads if count <= elements):
                file = Path(folder) / f"add-{elements}-by-{count}.loops"
                file.write_text(schedule(elements, count))
                points[file.as_uri()] = {"elements": elements, "threads": count}
        lake = ["--quiet", "--lake", f"{folder}/lake"]
        # The step of each episode does not matter: its first state is the schedule.
        answered(program, [
            *lake, "generate", "--env=loops-v0", "--policy=random", "--episode-length=1",
            *(f"--benchmark={uri}" for uri in points), f"--episodes={len(points)}",
        ])  # fmt: skip
        answered(program, [*lake, "measure", "--states=initial", f"--samples={rounds}"])
        rows = json.loads(answered(program, [*lake, "query", "throughput", "--format=json"]))
    for row in rows:
        points[row["benchmark_uri"]] |= {
            "gflops": row["gflops"],
            "gb_per_s": row["gigabytes_a_second"],
            "machine": {"device": row["machine"]},
        }
    missing = [uri for uri, point in points.items() if "gflops" not in point]
    if missing:
        sys.exit(f"sweep.py: {len(missing)} schedules have no time, among them {missing[0]}")
    return list(points.values())


def on_gpu(program: str, options: argparse.Namespace) -> list[dict]:
    """Return the points that `steplake-cuda sweep` prints."""
    arguments = ["sweep", f"--rounds={options.rounds}"]
    if options.sizes:
        arguments.append(f"--swept-sizes={','.join(map(str, options.sizes))}")
    if options.threads:
        arguments.append(f"--threads={','.join(map(str, options.threads))}")
    return parsed(answered(program, arguments))


def parsed(text: str) -> list[dict]:
    """Return the points of JSON lines."""
    return [json.loads(line) for line in text.splitlines()]


def table(points: list[dict]) -> str:
    """Return the gigabytes in a second, a row for each size and a column for each count."""
    speeds = {(point["elements"], point["threads"]): point["gb_per_s"] for point in points}
    counts = sorted({count for _, count in speeds})
    lines = ["GB/s".rjust(12) + "".join(f"{count:>10,}" for count in counts) + "  threads"]
    for elements in sorted({elements for elements, _ in speeds}):
        found = (speeds.get((elements, count)) for count in counts)
        cells = (f"{speed:>10.2f}" if speed is not None else " " * 10 for speed in found)
        lines.append(f"{elements:>12,}" + "".join(cells))
    return "\n".join(lines)


def draw(points: list[dict], file: Path) -> bool:
    """Draw the points, a line for each size; return whether matplotlib is there."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    sizes = sorted({point["elements"] for point in points})
    colours = matplotlib.colormaps["viridis"]
    for place, elements in enumerate(sizes):
        own = sorted((p["threads"], p["gb_per_s"]) for p in points if p["elements"] == elements)
        colour = colours(place / max(1, len(sizes) - 1) * 0.9)
        label = f"2^{elements.bit_length() - 1}"
        axes.plot(*zip(*own, strict=True), marker="o", markersize=3, color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("threads")
    axes.set_ylabel("GB/s, inputs and output")
    axes.set_ylim(bottom=0)
    scale = (lambda speed: speed / BYTES_PER_ELEMENT, lambda speed: speed * BYTES_PER_ELEMENT)
    axes.secondary_yaxis("right", functions=scale).set_ylabel("GFLOP/s")
    figure.legend(title="elements", fontsize="small", loc="outside right upper")
    axes.set_title(f"Point-wise addition, {points[0]['machine']['device']}", fontsize="small")
    figure.savefig(file)
    return True


def numbers(text: str) -> list[int]:
    """Return the powers of two of a list with commas."""
    values = [int(part) for part in text.split(",")]
    if any(value < 1 or value & (value - 1) for value in values):
        raise argparse.ArgumentTypeError("sizes and threads are powers of two")
    return values


def main() -> None:
    """Measure, or read what was measured; print and draw it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--steplake-cuda", default="steplake-cuda")
    where.add_argument("--steplake")
    where.add_argument("--cpu", dest="steplake", action="store_const", const="steplake")
    where.add_argument("--points", type=Path)
    parser.add_argument("--sizes", type=numbers)
    parser.add_argument("--threads", type=numbers)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.points:
        try:
            points = parsed(options.points.read_text())
        except OSError as error:
            sys.exit(f"sweep.py: {options.points} cannot be read: {error.strerror}")
    elif options.steplake:
        sizes, threads = options.sizes or CPU_SIZES, options.threads or CPU_THREADS
        points = on_cpu(options.steplake, sizes, threads, options.rounds)
    else:
        points = on_gpu(options.steplake_cuda, options)
    if not points:
        sys.exit("sweep.py: there is no point to draw")
    print(table(points))
    kept = options.out.with_suffix(".jsonl")
    if options.points != kept:
        kept.write_text("".join(json.dumps(point) + "\n" for point in points))
    if not draw(points, options.out):
        print(f"nothing is drawn, for want of matplotlib: pip install it, then --points {kept}")


if __name__ == "__main__":
    main()
