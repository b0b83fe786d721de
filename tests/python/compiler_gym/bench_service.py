"""What the unmodified client and the service cost: a step, a fork, a reset; alone, and recording.

scripts/test-compiler-gym.sh tests/python/compiler_gym/bench_service.py
STEPLAKE names the program to measure; a debug build tells little. PASSES names the benchmark `limits`
of the same profile, as `cargo bench --profile PROFILE --no-run --bench limits` prints it: it plays the
same steps by passes alone.
"""

import os
import random
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import compiler_gym  # noqa: F401 (registers the environments)
import gym
from support import STEPLAKE, Server

EPISODES_EACH = 2
ROUNDS = 8
LENGTH = 50
# The modules of zlib, bzip2 and csmith with which the peer was measured.
PROGRAMS = [f"benchmark://debian-v0/zlib/{name}.c" for name in ("crc32", "deflate", "infback", "inflate", "trees")]
PROGRAMS += [f"generator://csmith-v0/{seed}" for seed in range(3)]
LLVM_AS = "/usr/lib/llvm-22/bin/llvm-as"
TICK = os.sysconf("SC_CLK_TCK")


def modules(folder):
    """The bitcode of the programs, in files."""
    listed = subprocess.check_output([STEPLAKE, "datasets", "benchmarks", "benchmark://debian-v0/bzip2/*"], text=True)
    for place, uri in enumerate(PROGRAMS + listed.split()):
        text = subprocess.check_output([STEPLAKE, "replay", "--ir", uri])
        file = Path(folder, f"module-{place}.bc")
        subprocess.run([LLVM_AS, "-o", file, "-"], input=text, check=True)
        yield file


def cpu(process):
    """The CPU seconds of a process so far, and those of its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK, (int(fields[13]) + int(fields[14])) / TICK


def cpu_of(server):
    """The CPU seconds of a service so far, and those of its compilers."""
    own, ended = cpu(server.process.pid)
    return own, ended + sum(sum(cpu(worker)) for worker in server.workers())


def milliseconds(work):
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def passes_alone(episodes, folder):
    """The CPU in ms per step that the passes of these episodes take by themselves."""
    if "PASSES" not in os.environ:
        return float("nan")
    file = Path(folder, "episodes")
    file.write_text("".join(f"{path} {' '.join(map(str, actions))}\n" for path, actions in episodes))
    printed = subprocess.check_output([os.environ["PASSES"], f"--passes={file}"], text=True)
    return float(re.search(r"CPU time +([0-9.]+) ms", printed).group(1))


def measure(files, *arguments):
    """Means and medians in ms: a step, a fork, a reset. Then CPU in ms per step: the service's, the
    compilers'. Then the episodes."""
    server = Server(*arguments)
    # The same actions each time.
    chance = random.Random(0)
    env = gym.make("llvm-v0", service=server.address, reward_space="IrInstructionCountOz")
    programs = {path: env.make_benchmark(path) for path in files}
    steps, forks, resets, episodes = [], [], [], []
    for program in programs.values():
        env.reset(benchmark=program)
    before = cpu_of(server)
    for path, program in EPISODES_EACH * list(programs.items()):
        resets.append(milliseconds(lambda: env.reset(benchmark=program)))
        actions = []
        for _ in range(LENGTH):
            action = chance.randrange(env.action_space.n)
            done = []
            steps.append(milliseconds(lambda: done.append(env.step(action)[2])))
            if done[0]:
                # What fails here must not be run by the passes alone.
                break
            actions.append(action)
        episodes.append((path, actions))
    used = [(now - then) * 1000 / len(steps) for now, then in zip(cpu_of(server), before)]
    env.reset(benchmark=program)
    for _ in episodes:
        made = []
        request = env.service.stub.ForkSession
        message = compiler_gym.service.proto.ForkSessionRequest(session_id=env._session_id)
        forks.append(milliseconds(lambda: made.append(env.service(request, message))))
        env.service(
            env.service.stub.EndSession, compiler_gym.service.proto.EndSessionRequest(session_id=made[0].session_id)
        )
    env.close()
    server.stop()
    figures = [statistics.mean(steps), statistics.median(steps), *map(statistics.median, (forks, resets)), *used]
    return figures, episodes


def main():
    names = ["step mean", "step median", "fork", "reset", "CPU service", "CPU compilers", "CPU passes"]
    with tempfile.TemporaryDirectory() as folder:
        files = list(modules(folder))
        print(f"{len(files)} modules; ms")
        print(f"{'':<12}" + "".join(f"{name:>14}" for name in names))
        rows = {"alone": [], "recording": []}
        for turn in range(ROUNDS):
            # The order alternates, so that a machine that becomes slower favours neither.
            for name in sorted(rows, reverse=turn % 2 == 1):
                with tempfile.TemporaryDirectory() as lake:
                    figures, episodes = measure(files, *([] if name == "alone" else ["--lake", f"{lake}/lake"]))
                figures.append(passes_alone(episodes, folder))
                rows[name].append(figures)
                print(f"{name:<12}" + "".join(f"{figure:>14.3f}" for figure in figures), flush=True)
        for name, all_figures in rows.items():
            middle = map(statistics.median, zip(*all_figures))
            print(f"{name + ', median':<18}" + "".join(f"{figure:>14.3f}" for figure in middle))
        print("recording over alone, median and quartiles of the rounds:")
        for place, name in (0, "step mean"), (1, "step median"), (None, "CPU"):
            of = (lambda figures: figures[4] + figures[5]) if place is None else (lambda figures: figures[place])
            ratios = [of(recorded) / of(alone) for alone, recorded in zip(rows["alone"], rows["recording"])]
            low, middle, high = statistics.quantiles(ratios, n=4)
            print(f"  {name:<14}{middle:.3f} ({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
