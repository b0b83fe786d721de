"""Measures the Python package against the Rust library, pyarrow, and itself.

    python main.py SESSION [NAME...]

SESSION is the program of `crates/worker/benches/session.rs`. The ratios are medians over rounds in
which both sides take turns.
"""

import argparse
import gc
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gymnasium
import steplake
from steplake import _package

EPISODES_EACH = 2
EPISODE_LENGTH = 50
ROUNDS = 5


def show(what, figure, note=""):
    """Print one row."""
    print(f"{what:56} {figure:>14}  {note}", flush=True)


def median_ms(work, times):
    """Return the median time of a call, in ms."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return 1e3 * statistics.median(seconds)


def resident_mib():
    """Return the memory of this process, in MiB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def plan(env, folder):
    """Draw the episodes, and write them for the other side."""
    rng = random.Random(1)
    lines, episodes = [], []
    for benchmark in env.datasets["benchmark://steplake-v0"].benchmarks():
        path = folder / f"{benchmark.uri.rsplit('/', 1)[1]}.bc"
        path.write_bytes(benchmark.program)
        for _ in range(EPISODES_EACH):
            actions = [rng.randrange(env.action_space.n) for _ in range(EPISODE_LENGTH)]
            episodes.append((benchmark, actions))
            lines.append(" ".join([str(path), *map(str, actions)]))
    (folder / "plan").write_text("\n".join(lines))
    return episodes


def play(env, episodes):
    """Play episodes, and return steps per second."""
    steps, began = 0, time.perf_counter()
    for benchmark, actions in episodes:
        env.reset(options={"benchmark": benchmark})
        for action in actions:
            steps += 1
            if env.step(action)[2]:
                break
    return steps / (time.perf_counter() - began)


def stepping(folder, session):
    """Episodes from Python against the same ones from Rust."""
    env = steplake.make("llvm-v0")
    episodes = plan(env, folder)
    line = [session, _package.program("steplake-worker"), folder / "plan"]
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as other:

        def in_rust():
            other.stdin.write("\n")
            other.stdin.flush()
            steps, seconds = other.stdout.readline().split()
            return int(steps) / float(seconds)

        # The first round computes the baselines.
        play(env, episodes), in_rust()
        rounds = [(play(env, episodes), in_rust()) for _ in range(ROUNDS)]
        other.stdin.close()
    show("steps/s from Python, Autophase observed", f"{max(one for one, _ in rounds):.0f}")
    show("steps/s of the session in Rust", f"{max(one for _, one in rounds):.0f}")
    ratio = statistics.median(python / rust for python, rust in rounds)
    show("Python over Rust", f"{100 * ratio:.1f} %", "target: at least 90 %")
    env.close()


def vector(_folder, _session):
    """Two environments in parallel against one."""
    uris = ["benchmark://steplake-v0/huffman"] * 2
    one = steplake.make("llvm-v0", benchmark=uris[0])
    two = gymnasium.make_vec(
        "steplake:llvm-v0", num_envs=2, benchmark=uris, max_episode_steps=-1
    )
    rng = random.Random(2)

    def episodes():
        return [[rng.randrange(one.action_space.n) for _ in range(100)] for _ in range(8)]

    def alone(drawn):
        began = time.perf_counter()
        for actions in drawn:
            one.reset()
            for action in actions:
                one.step(action)
        return 800 / (time.perf_counter() - began)

    def together(drawn):
        began = time.perf_counter()
        for actions in drawn:
            two.reset()
            for action in actions:
                two.step([action, action])
        return 1600 / (time.perf_counter() - began)

    alone(episodes()), together(episodes())
    ratios = []
    for _ in range(ROUNDS):
        drawn = episodes()
        ratios.append(together(drawn) / alone(drawn))
    show("a vector of 2 over one", f"{statistics.median(ratios):.2f}", "target: at least 1.8")
    one.close(), two.close()


def calls(folder, _session):
    """Single calls."""
    env = steplake.make("llvm-v0")
    env.reset()
    show("reset, warm", f"{median_ms(env.reset, 100):.1f} ms", "target: at most 3 ms")

    def new():
        other = steplake.make("llvm-v0", benchmark=env.benchmark)
        other.reset()
        other.close()

    show("a new environment and its first reset", f"{median_ms(new, 30):.1f} ms", "target: at most 15 ms")
    env.multistep(range(10))
    wanted = env.state.state_id

    def fork():
        fork = env.fork()
        assert fork.state.state_id == wanted
        fork.close()

    show("fork", f"{median_ms(fork, 100):.1f} ms", "target: at most 4 ms")
    toy = steplake.make("toy-v0")
    with steplake.record(folder / "toy", toy):
        for seed in range(50):
            toy.reset(options={"benchmark": f"generator://toy-v0/{seed}"})
            for step in range(200):
                toy.step(step * step % 7)
    with steplake.open(folder / "toy") as lake:
        lake.dedup()
    cached = steplake.make("replay-v0", lake=folder / "toy")

    def steps():
        cached.reset()
        for step in range(200):
            cached.step(step * step % 7)

    show("a step that a lake answers", f"{5 * median_ms(steps, 200):.1f} µs", "target: under 20 µs")
    code = "import time; b = time.perf_counter(); import steplake; print(time.perf_counter() - b)"
    line = [sys.executable, "-c", code]
    imports = [float(subprocess.run(line, capture_output=True).stdout) for _ in range(20)]
    show("import steplake", f"{1e3 * statistics.median(imports):.0f} ms", "target: under 50 ms")


def is_shared(column, series):
    """Whether a series has its values where an Arrow column has them."""
    if series.n_chunks() != column.num_chunks or not series.dtype.is_numeric():
        return False
    values = series.get_chunks()[0].to_arrow().buffers()[1]
    return bool(values.address == column.chunk(0).buffers()[1].address)


def tables(folder, _session):
    """Ten million rows as an Arrow table against pyarrow, and as a frame of polars."""
    import polars
    import pyarrow.parquet

    path = folder / "lake"
    steplake.generate(
        path,
        "generator://toy-v0/0..63",
        environment="toy-v0",
        steps=10_000_000,
        episode_length=1000,
        keyframes=None,
        progress=False,
    )
    lake = steplake.open(path, progress=False)
    lake.seal()
    rows = lake.sql("SELECT count(*) FROM steps").fetchone()[0]
    answer = lake.sql("SELECT * FROM steps")

    def own():
        return answer.to_arrow_table()

    def others():
        return pyarrow.parquet.read_table(path / "current" / "steps")

    own(), others()
    ratios = [median_ms(own, 1) / median_ms(others, 1) for _ in range(ROUNDS)]
    show(f"{rows:,} rows as an Arrow table", f"{median_ms(own, 1):.0f} ms")
    ratio = statistics.median(ratios)
    show("the same over pyarrow's reader", f"{ratio:.2f}", "target: at most 1.2")
    table = own()
    # As `pl` does, which joins no chunks.
    frame = polars.from_arrow(table, rechunk=False)
    assert frame.height == rows
    shared = [name for name in table.column_names if is_shared(table[name], frame[name])]
    show("columns that polars takes without a copy", f"{len(shared)} of {frame.width}")


def memory(folder, _session):
    """The memory of 100,000 recorded steps, and of 10,000 resets."""
    env = steplake.make("llvm-v0", benchmark="benchmark://steplake-v0/fourier")
    rng = random.Random(3)
    sizes = []
    with steplake.record(folder / "memory", env):
        for quarter in range(4):
            for _ in range(500):
                env.reset()
                for _ in range(50):
                    if env.step(rng.randrange(env.action_space.n))[2]:
                        break
            sizes.append(resident_mib())
    show("memory after each 25,000 of 100,000 recorded steps", "", f"{sizes} MiB")
    sizes = []
    for quarter in range(4):
        for _ in range(2500):
            env.reset()
        sizes.append(resident_mib())
    show("memory after each 2,500 of 10,000 resets", "", f"{sizes} MiB")


BENCHES = {
    "calls": calls,
    "stepping": stepping,
    "vector": vector,
    "tables": tables,
    "memory": memory,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("session")
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []], default=[])
    arguments = parser.parse_args()
    for name, bench in BENCHES.items():
        if not arguments.names or name in arguments.names:
            with tempfile.TemporaryDirectory() as folder:
                bench(Path(folder), arguments.session)


if __name__ == "__main__":
    main()
