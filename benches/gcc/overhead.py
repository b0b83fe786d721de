"""What recording with gcc-v0 costs beside the compiler alone.

    python3 benches/gcc/overhead.py STEPLAKE [--rounds N] [--length N]

Two comparisons of CPU time, which includes that of all child processes. Both sides take turns, episode by
episode, since machines become slower and faster.

1. The overhead: a random walk through the options of a program of one line, with the size of the object in
   every new state; then `cc1` for each of these states and `as` for each distinct assembly, by hand.
2. Steps: the same walk on programs of csmith; then `gcc -c` after every step, which is what an environment
   does that knows nothing of earlier outputs.
"""

import argparse
import csv
import io
import os
import resource
import shlex
import statistics
import subprocess
import tempfile
from pathlib import Path

CSMITH = [f"generator://csmith-v0/{seed}" for seed in range(5)]
TINY = "int f(int x) { return x + 1; }\n"
TOOLS = ["cc1", "as"]

# The states of the steps, in order.
STEPS = """
    SELECT command_line, asm_hash, state_id FROM steps JOIN observations USING (state_id)
    ORDER BY episode_id, step_index
"""


def cpu_of(work):
    """The CPU seconds that the child processes of `work` take."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Bench:
    """The program to measure, and a folder in memory."""

    def __init__(self, steplake, folder):
        self.run = [os.path.abspath(steplake), "--quiet"]
        self.folder = folder
        ask = [["gcc", f"-print-prog-name={name}"] for name in TOOLS]
        self.tools = [subprocess.check_output(command, text=True).strip() for command in ask]
        self.hidden = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

    def record(self, uri, length, seed, observe):
        """Record one episode; return the CPU seconds and the steps as rows."""
        lake = f"{self.folder}/lake-{len(os.listdir(self.folder))}"
        generate = ["generate", "--env=gcc-v0", "--jobs=1", "--ir=keyframes=64", f"--benchmark={uri}"]
        generate += [f"--seed={seed}", "--episodes=1", f"--episode-length={length}", *observe]
        used = cpu_of(lambda: subprocess.run([*self.run, f"--lake={lake}", *generate], check=True, **self.hidden))
        if not observe:
            return used, []
        answer = subprocess.check_output([*self.run, f"--lake={lake}", "sql", STEPS, "--format=csv"], text=True)
        return used, list(csv.DictReader(io.StringIO(answer)))

    def source(self, uri):
        """The preprocessed program, in a file."""
        file = Path(self.folder, "program.i")
        file.write_bytes(subprocess.check_output([*self.run, "replay", "--env=gcc-v0", "--ir", uri]))
        return file

    def once_each(self, source, steps):
        """Compile each state once, and assemble each distinct assembly once."""
        states, assembled = set(), set()
        assembly = Path(self.folder, "program.s")
        for step in steps:
            if step["state_id"] in states:
                continue
            states.add(step["state_id"])
            cc1 = [self.tools[0], "-fpreprocessed", source, "-quiet", "-dumpbase", source.name, "-mtune=generic"]
            cc1 += ["-march=x86-64", "-w", "-fasynchronous-unwind-tables", *options(step), "-o", assembly]
            done = subprocess.run(cc1, **self.hidden)
            if done.returncode == 0 and step["asm_hash"] not in assembled:
                assembled.add(step["asm_hash"])
                made = Path(self.folder, "program.o")
                subprocess.run([self.tools[1], "-W", "--64", "-o", made, assembly], **self.hidden, check=True)
        return len(states), len(assembled)

    def every_step(self, source, steps):
        """Compile after every step."""
        for step in steps:
            made = Path(self.folder, "program.o")
            subprocess.run(["gcc", *options(step), "-w", "-c", source, "-o", made], **self.hidden)


def options(step):
    """The options of a state: what stands in the command line before `-w -c src.c -o obj.o`."""
    return shlex.split(step["command_line"])[1:-5]


OBSERVE = ["--observe=obj_size,asm_hash,command_line", "--rewards=obj_size"]


def overhead(bench, rounds, length):
    """Print what a compile takes beside cc1 and as."""
    tiny = Path(bench.folder, "tiny.c")
    tiny.write_text(TINY)
    uri = f"file://{tiny}"
    source = bench.source(uri)
    found, by_hand = [], []
    for seed in range(rounds):
        # What the walk itself costs, and the start of the program, is no part of a compile.
        walk, _ = bench.record(uri, length, seed, [])
        recorded, steps = bench.record(uri, length, seed, OBSERVE)
        counts = []
        hand = cpu_of(lambda: counts.append(bench.once_each(source, steps)))
        states, _ = counts[0]
        by_hand.append(hand / states * 1000)
        found.append((recorded - walk - hand) / states * 1000)
    low, middle, high = statistics.quantiles(found, n=4)
    print(f"overhead over cc1 and as: {middle:.2f} ms a compile (quartiles {low:.2f} to {high:.2f}), ", end="")
    print(f"which take {statistics.median(by_hand):.2f} ms themselves; {rounds} walks of {length} steps", flush=True)


def stepping(bench, rounds, length):
    """Print what a step takes beside a compile after every step."""
    total = dict.fromkeys(["steps", "states", "outputs", "recorded", "floor", "every step"], 0)
    for seed in range(rounds):
        for uri in CSMITH:
            source = bench.source(uri)
            recorded, steps = bench.record(uri, length, seed, OBSERVE)
            counts = []
            total["floor"] += cpu_of(lambda: counts.append(bench.once_each(source, steps)))
            # The first row is the state before the first step.
            total["every step"] += cpu_of(lambda: bench.every_step(source, steps[1:]))
            total["recorded"] += recorded
            total["steps"] += len(steps) - 1
            total["states"] += counts[0][0]
            total["outputs"] += counts[0][1]
    steps = total["steps"]
    print(f"{steps} steps: {total['states'] / steps:.2f} compiles a step, {total['outputs']} outputs of ", end="")
    print(f"{total['states']} states")
    for name in ("recorded", "floor", "every step"):
        print(f"  {name:<12}{total[name] / steps * 1000:8.1f} ms of CPU time a step")
    print(f"  a compile after every step takes {total['every step'] / total['recorded']:.2f} times as long")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steplake")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--length", type=int, default=30)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        bench = Bench(arguments.steplake, folder)
        overhead(bench, 4 * arguments.rounds, arguments.length)
        stepping(bench, arguments.rounds, arguments.length)


if __name__ == "__main__":
    main()
