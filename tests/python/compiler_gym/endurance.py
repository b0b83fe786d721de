"""What takes too long for every change: determinism at length, memory over many steps, many sessions.

scripts/test-compiler-gym.sh tests/python/compiler_gym/endurance.py [determinism] [steps] [sessions]
"""

import random
import sys
from pathlib import Path

import compiler_gym  # noqa: F401 (registers the environments)
import grpc
import gym
from compiler_gym.service.proto import Event, StepRequest
from support import HUFFMAN, PROGRAMS, Server, leave

# Not deterministic by design: a path, and times.
NOT_DETERMINISTIC = {"BitcodeFile", "Runtime", "Buildtime"}

# Passes that do not let a program grow for ever.
ROUND = ["-mem2reg", "-reg2mem", "-instcombine", "-simplifycfg", "-gvn", "-dce", "-sroa", "-early-cse", "-licm", "-adce"]


def step(env, actions, spaces=()):
    """What the service answers, byte for byte: the observations, or its status."""
    request = StepRequest(
        session_id=env._session_id, action=[Event(int64_value=action) for action in actions], observation_space=spaces
    )
    try:
        reply = env.service.stub.Step(request)
    except grpc.RpcError as error:
        return error.code(), error.details()
    return [event.SerializeToString(deterministic=True) for event in reply.observation]


def differences(one, other, programs, sequences, length, every=10, seed=0):
    """Plays random sequences on two servers, one action at a time on the first and lists of actions on
    the second, and returns how many observations were compared, how many sequences a failure of the
    compiler ended, and what differed."""
    compared, failures, found = 0, 0, []
    envs = [gym.make("llvm-v0", service=server.address) for server in (one, other)]
    # The derived spaces, which the client computes, come after those of the service.
    names = list(envs[0].observation.spaces)[:26]
    places = [place for place, name in enumerate(names) if name not in NOT_DETERMINISTIC]
    chance = random.Random(seed)
    for program in programs:
        for _ in range(sequences):
            actions = [chance.randrange(124) for _ in range(length)]
            for env in envs:
                env.reset(benchmark=f"cbench-v1/{program}")
            for begin in range(0, length, every):
                batch = actions[begin : begin + every]
                for action in batch[:-1]:
                    single = step(envs[0], [action])
                    if single != []:
                        break
                else:
                    single = step(envs[0], batch[-1:], places)
                at_once = step(envs[1], batch, places)
                compared += len(at_once)
                if single != at_once:
                    where = [names[place] for place, a, b in zip(places, single, at_once) if a != b]
                    found.append((program, actions[: begin + every], where or (single, at_once)))
                if isinstance(single, tuple):
                    failures += 1
                    # The sessions are gone.
                    for env in envs:
                        env._session_id = None
                    break
    for env in envs:
        env.close()
    return compared, failures, found


def programs(count):
    return sorted(path.stem for path in PROGRAMS.glob("*.bc"))[:count]


def resident(process):
    """The MiB of memory that a process holds."""
    pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    return int(pages) * 4096 / 2**20


def memory(server):
    workers = server.workers()
    return f"server {resident(server.process.pid):.1f} MiB, {len(workers)} workers {sum(map(resident, workers)):.1f} MiB"


def determinism():
    servers = [Server(), Server()]
    compared, failures, found = differences(*servers, programs(10), sequences=20, length=50)
    print(f"determinism: {compared:,} observations compared, {failures} failures, {len(found)} differences")
    for difference in found:
        print(difference)
    for server in servers:
        server.stop()
    return not found


def steps(count=100_000):
    server = Server()
    env = gym.make("llvm-v0", service=server.address, benchmark=HUFFMAN)
    env.reset()
    flags = [env.action_space.flags.index(name) for name in ROUND]
    chance = random.Random(0)
    for taken in range(0, count, 20):
        if taken % (count // 10) == 0:
            print(f"steps: after {taken:>7,}: {memory(server)}", flush=True)
        assert len(step(env, chance.choices(flags, k=20), [9])) == 1
    print(f"steps: after {count:>7,}: {memory(server)}")
    env.close()
    return server.stop() == 0


def sessions(count=1000):
    server = Server("--live-sessions", 8)
    first = gym.make("llvm-v0", service=server.address, benchmark=HUFFMAN)
    first.reset()
    flags = [first.action_space.flags.index(name) for name in ROUND]
    print(f"sessions: {1:>5,}: {memory(server)}", flush=True)
    envs = [first]
    while len(envs) < count:
        env = gym.make("llvm-v0", service=server.address, benchmark=HUFFMAN)
        env.reset()
        step(env, flags[:3])
        envs.append(env)
        if len(envs) % (count // 5) == 0:
            print(f"sessions: {len(envs):>5,}: {memory(server)}", flush=True)
    # All go on, also those that were parked.
    step(first, flags[:3])
    hashes = {step(env, flags[3:5], [1])[0] for env in envs}
    print(f"sessions: all used again: {memory(server)}, {len(hashes)} different states")
    is_well = server.stop() == 0 and len(hashes) == 1
    for env in envs:
        leave(env)
    return is_well


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["determinism", "steps", "sessions"]
    every = {"determinism": determinism, "steps": steps, "sessions": sessions}
    sys.exit(not all([every[name]() for name in chosen]))
