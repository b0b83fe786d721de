"""Measures schedules on a GPU beside copies of memory, PyTorch and cuBLAS.

    python3 benches/loops/gpu.py [--steplake-cuda PROGRAM] [--rounds N] [--sizes N,N,...]
        [--lines FILE | --from FILE]

Runs `steplake-cuda bench` and, in turns with it, `torch.add` into an array that is there, if there
is PyTorch with CUDA: as Python launches it, and many launches in one CUDA graph, which show small
sizes without the time of Python. The best turn of each counts. Prints tables, and writes the lines
of both to FILE (gpu.jsonl), from which `--from FILE` prints the tables again.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

BYTES_PER_ELEMENT = 12
TURN_S = 0.005
LAUNCHES_MAX = 1 << 13
GRAPH_LAUNCHES = 64


def measured(program: str, rounds: int, what: list[str]) -> list[dict]:
    """Return the lines of `steplake-cuda bench`; end with its message if it fails."""
    command = [program, "bench", f"--rounds={rounds}", *what]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"gpu.py: {program} cannot be run ({error.strerror}): name it by --steplake-cuda")
    if done.returncode != 0:
        sys.exit(f"gpu.py: {program} failed: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def torch_on_gpu():
    """Return PyTorch, or why it is not measured."""
    try:
        import torch
    except ImportError:
        return None, "there is no PyTorch for this Python"
    if not torch.cuda.is_available():
        return None, f"PyTorch {torch.__version__} finds no GPU"
    return torch, f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}"


def seconds(torch, times: int, launch) -> float:
    """Return the seconds that the GPU needs for so many launches."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        launch()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1000


def best(torch, rounds: int, launch) -> float:
    """Return the seconds of a launch in the best turn."""
    times = 1
    while seconds(torch, times, launch) < TURN_S and times < LAUNCHES_MAX:
        times *= 2
    return min(seconds(torch, times, launch) for _ in range(rounds)) / times


def added(torch, elements: int, rounds: int) -> dict:
    """Measure `torch.add` of arrays."""
    one, other = (torch.rand(elements, device="cuda") for _ in range(2))
    result = torch.empty_like(one)

    def launch():
        torch.add(one, other, out=result)

    launched = best(torch, rounds, launch)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(GRAPH_LAUNCHES):
            launch()
    in_graph = best(torch, rounds, graph.replay) / GRAPH_LAUNCHES
    assert torch.equal(result, one + other)
    return {"bench": "torch", "elements": elements, "best_s": launched, "graph_s": in_graph}


def in_turns(options: argparse.Namespace) -> list[dict]:
    """Measure everything, addition in turns with PyTorch."""
    add = ["add", *([f"--sizes={options.sizes}"] if options.sizes else [])]
    torch, about = torch_on_gpu()
    lines = [{"bench": "about", "torch": about}]
    lines += measured(options.steplake_cuda, options.rounds, ["copy"])
    for _ in range(options.rounds):
        ours = measured(options.steplake_cuda, 1, add)
        lines += ours
        if torch:
            for elements in dict.fromkeys(line["elements"] for line in ours):
                lines.append(added(torch, elements, 1))
                torch.cuda.empty_cache()
    return lines + measured(options.steplake_cuda, options.rounds, ["matmul"])


def additions(lines: list[dict]) -> list[str]:
    """Return a row for each size: the best schedule, the best copy and PyTorch."""
    rows = [
        f"{'elements':>12} {'add':>8} {'copy':>8} {'ratio':>6} {'torch':>8} {'ratio':>6}"
        f" {'graph':>8} {'torch':>8} {'ratio':>6}  schedule (GB/s; the addition's ratio to each)"
    ]
    adds = [line for line in lines if line["bench"] == "add"]
    for elements in sorted({line["elements"] for line in adds}):
        own = [line for line in adds if line["elements"] == elements]
        ours = max(own, key=lambda line: line["gb_per_s"])
        copy = max(line["copy_gb_per_s"] for line in own)
        speed, in_graph = ours["gb_per_s"], gb_per_s(elements, own, "graph_s")
        row = f"{elements:>12,} {speed:>8.1f} {copy:>8.1f} {speed / copy:>6.3f}"
        theirs = [x for x in lines if x["bench"] == "torch" and x["elements"] == elements]
        if theirs:
            launched = gb_per_s(elements, theirs, "best_s")
            graph = gb_per_s(elements, theirs, "graph_s")
            row += f" {launched:>8.1f} {speed / launched:>6.3f}"
            row += f" {in_graph:>8.1f} {graph:>8.1f} {in_graph / graph:>6.3f}"
        else:
            row += f" {'-':>8} {'-':>6} {in_graph:>8.1f} {'-':>8} {'-':>6}"
        rows.append(f"{row}  {ours['schedule']}")
    return rows


def gb_per_s(elements: int, lines: list[dict], name: str) -> float:
    """Return the speed of the shortest of the times with this name."""
    return elements * BYTES_PER_ELEMENT / min(line[name] for line in lines) * 1e-9


def report(lines: list[dict]) -> str:
    """Return the tables."""
    machine = next((line["machine"] for line in lines if "machine" in line), {})
    rows = [", ".join(f"{name} {value}" for name, value in machine.items())]
    rows += [line["torch"] for line in lines if line["bench"] == "about"]
    for line in (line for line in lines if line["bench"] == "copy"):
        mebibytes = line["array_bytes"] >> 20
        rows.append(f"copy of {mebibytes} MiB: {line['gb_per_s']:.1f} GB/s, by {line['best']}")
    rows += additions(lines)
    for line in (line for line in lines if line["bench"] == "matmul"):
        rows.append(f"{line['program']}: {line['gflops']:.0f} GFLOP/s by {line['schedule']}")
        if line["ratio"] is not None:
            rows[-1] += f", {line['ratio']:.3f} times {line['cublas_gflops']:.0f}"
        rows[-1] += f"; {line['cublas']}"
    return "\n".join(rows)


def main() -> None:
    """Measure, or read what was measured; print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steplake-cuda", default="steplake-cuda")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes")
    parser.add_argument("--lines", type=Path, default=Path("gpu.jsonl"))
    parser.add_argument("--from", dest="read", type=Path)
    options = parser.parse_args()
    if options.read:
        try:
            text = options.read.read_text()
        except OSError as error:
            sys.exit(f"gpu.py: {options.read} cannot be read: {error.strerror}")
        lines = [json.loads(line) for line in text.splitlines()]
    else:
        lines = in_turns(options)
        options.lines.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(report(lines))


if __name__ == "__main__":
    main()
