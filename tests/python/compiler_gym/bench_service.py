"""What the unmodified client and the service cost: a step, a fork, a reset; alone, and recording.

scripts/test-compiler-gym.sh tests/python/compiler_gym/bench_service.py
STEPLAKE names the program to measure; a debug build tells little.
"""

import os
import random
import statistics
import tempfile
import time
from pathlib import Path

import compiler_gym  # noqa: F401 (registers the environments)
import gym
from support import Server

EPISODES = 20
LENGTH = 50
PROGRAMS = ["huffman", "fourier", "json_reader", "window_compressor"]
TICK = os.sysconf("SC_CLK_TCK")


def cpu(process):
    """The CPU seconds of a process so far, without its children."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def milliseconds(work):
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def measure(*arguments):
    """Medians in ms: a step, a fork, a reset. Then CPU in ms per step: the service's, the compilers'."""
    server = Server(*arguments)
    # The same actions each time.
    chance = random.Random(0)
    env = gym.make("llvm-v0", service=server.address, reward_space="IrInstructionCountOz")
    steps, forks, resets = [], [], []
    for name in PROGRAMS:
        env.reset(benchmark=f"cbench-v1/{name}")
    pid = server.process.pid
    before = (cpu(pid), sum(map(cpu, server.workers())))
    for episode in range(EPISODES):
        name = f"cbench-v1/{PROGRAMS[episode % len(PROGRAMS)]}"
        resets.append(milliseconds(lambda: env.reset(benchmark=name)))
        for _ in range(LENGTH):
            action = chance.randrange(env.action_space.n)
            steps.append(milliseconds(lambda: env.step(action)))
    count = EPISODES * LENGTH
    used = [(now - then) * 1000 / count for now, then in zip((cpu(pid), sum(map(cpu, server.workers()))), before)]
    for _ in range(EPISODES):
        made = []
        request = env.service.stub.ForkSession
        message = compiler_gym.service.proto.ForkSessionRequest(session_id=env._session_id)
        forks.append(milliseconds(lambda: made.append(env.service(request, message))))
        env.service(
            env.service.stub.EndSession, compiler_gym.service.proto.EndSessionRequest(session_id=made[0].session_id)
        )
    env.close()
    server.stop()
    return [statistics.mean(steps), statistics.median(steps), *map(statistics.median, (forks, resets)), *used]


def main():
    names = ["step mean", "step median", "fork", "reset", "CPU service", "CPU compiler"]
    print(f"{'ms':<12}" + "".join(f"{name:>14}" for name in names))
    for name in ("alone", "recording"):
        with tempfile.TemporaryDirectory() as folder:
            figures = measure(*([] if name == "alone" else ["--lake", f"{folder}/lake"]))
        print(f"{name:<12}" + "".join(f"{figure:>14.3f}" for figure in figures))


if __name__ == "__main__":
    main()
