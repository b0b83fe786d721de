"""Uses the installed package where there is no compiler, and prints what it costs."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet
import steplake

SIX = ["mem2reg", "sroa", "instcombine<no-verify-fixpoint>", "gvn", "simplifycfg", "licm"]
HERE = Path(__file__).parent


def demand(holds, what):
    """Fail with a sentence unless something holds."""
    if not holds:
        sys.exit(f"bare.py: {what}")


def refused(benchmark):
    """Return the sentence with which a program is refused."""
    env = steplake.make("llvm-v0")
    try:
        env.reset(options={"benchmark": benchmark})
    except steplake.SteplakeError as error:
        return str(error)
    finally:
        env.close()
    sys.exit(f"bare.py: {benchmark} was compiled without a compiler")


def main():
    for program in ["clang", "clang-22", "opt-22", "gcc", "cc", "rustc", "cargo", "csmith"]:
        demand(shutil.which(program) is None, f"{program} is installed")
    libraries = [path for path in Path("/usr").rglob("libLLVM*")]
    demand(not libraries, f"LLVM is installed: {libraries}")

    # The programs of the package need no compiler but the worker's.
    env = steplake.make("llvm-v0")
    benchmarks = list(env.datasets["benchmark://steplake-v0"].benchmark_uris())
    demand(len(benchmarks) == 25, f"there are {len(benchmarks)} programs")
    actions = [env.action_space.names.index(name) for name in SIX if name in env.action_space.names]
    began, states = time.perf_counter(), set()
    with steplake.record(HERE / "from-inside", env):
        for benchmark in benchmarks:
            _, info = env.reset(options={"benchmark": benchmark})
            states.add(info["state_id"])
            for action in actions:
                _, _, terminated, _, info = env.step(action)
                demand(not terminated, f"{benchmark}: {info}")
                states.add(info["state_id"])
    seconds = time.perf_counter() - began
    print(f"{len(benchmarks) * len(actions) / seconds:.0f} steps/s, {len(states)} states")
    with steplake.open(HERE / "from-inside") as lake:
        lake.dedup()
        demand(lake.verify(replay=20), "the lake does not verify")
        count = lake.sql("SELECT count(*) FROM state_transitions").fetchone()[0]
        demand(count > 100, f"there are {count} transitions")
    rows = pyarrow.parquet.read_table(HERE / "from-inside/current/steps").num_rows
    demand(rows == len(benchmarks) * (1 + len(actions)), f"pyarrow reads {rows} steps")
    with steplake.open(HERE / "from-outside") as lake:
        lake.dedup()
        demand(lake.verify(replay=16), "the lake of the other program does not verify")

    # What needs clang says so in one sentence.
    for benchmark in ["generator://csmith-v0/1", "benchmark://debian-v0/zlib/adler32.c"]:
        sentence = refused(benchmark)
        print(sentence)
        demand("clang" in sentence or "csmith" in sentence, "it does not name what is missing")
        demand("\n" not in sentence, "it is not one sentence")

    code = (
        "import sys, time; began = time.perf_counter(); import steplake; "
        "print(time.perf_counter() - began, {'numpy', 'torch', 'gymnasium'} & set(sys.modules))"
    )
    said = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(10)
    ]
    said = [one.stdout.split(maxsplit=1) for one in said]
    demand(all(modules == "set()\n" for _, modules in said), f"an import brings {said[0][1]}")
    print(f"import steplake: {1000 * min(float(seconds) for seconds, _ in said):.0f} ms")


if __name__ == "__main__":
    main()
