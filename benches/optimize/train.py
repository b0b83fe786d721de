"""Finds the coreset of `steplake optimize`: few sequences that make many programs small.

    python3 benches/optimize/train.py PROGRAMS OUT.json [--jobs 2] [--rounds 4] [--trials 40]

PROGRAMS is a file with a benchmark URI in each line. A search looks for short programs of each:
it changes, joins and lengthens the best sequences of this and of other programs. Then every
program's best sequence is tried on every other program, and the coreset is chosen greedily: each
next sequence is the one that saves most beyond those before it, on the average over programs.

OUT.json has the features of the programs, the sequences, and the saving of each sequence on each
program: the natural logarithm of the instructions after -Oz over those of the smallest program on
the sequence's way.
"""

import argparse
import json
import math
import multiprocessing
import random
import re
import subprocess
import time
from pathlib import Path

import steplake

#: The most actions of a sequence.
LENGTH_MAX = 64
#: Programs with more instructions take too long, and those with fewer show nothing.
SIZES = range(60, 5_000)
COST = "IrInstructionCount"
#: Passes that LLVM's own pipelines do not run miscompile now and then, and nobody can check programs
#: that cannot be run. These are run by LLVM's pipelines for code generation, or by other compilers
#: (`mergefunc`, by Rust's and Swift's).
TRUSTED = {
    *("break-crit-edges", "consthoist", "dce", "lcssa", "loop-simplify", "lower-switch", "mergefunc"),
    *("mergereturn", "nary-reassociate", "separate-const-offset-from-gep", "sink", "slsr"),
    *("strip-dead-prototypes", "unreachableblockelim"),
}
PIPELINES = ["O1", "O2", "O3", "Os", "Oz"]
#: What pipelines are made of beside passes.
ADAPTORS = {"module", "cgscc", "function", "loop", "loop-mssa"}

envs = {}


def session():
    """The environment of this process."""
    if "env" not in envs:
        envs["env"] = steplake.make("llvm-v0", observation_space=COST, reward_space=None)
    return envs["env"]


def passes(pipeline):
    """The names of the passes of a pipeline, without their parameters."""
    names = {re.sub(r"<.*", "", part) for part in re.split(r"[,()]", pipeline) if part}
    return names - ADAPTORS


def trusted_actions():
    """The actions whose passes LLVM's own pipelines run, and those that are trusted anyway."""
    known = set(TRUSTED)
    for level in PIPELINES:
        command = ["opt-22", f"-passes=default<{level}>", "-print-pipeline-passes", "-disable-output"]
        done = subprocess.run(command, input="", capture_output=True, text=True, check=True)
        known |= passes(done.stdout.strip())
    pipelines = session().action_space.pipelines
    return [at for at, pipeline in enumerate(pipelines) if passes(pipeline) <= known]


def begin(program):
    """Starts a program; None if it cannot be started or is of another size."""
    env = session()
    try:
        cost, _ = env.reset(options={"benchmark": program})
    except steplake.SteplakeError:
        return None
    return int(cost)


def about(program):
    """The features of a program, and its sizes untouched and after -Oz."""
    cost = begin(program)
    if cost is None or cost not in SIZES:
        return None
    env = session()
    try:
        features = env.observation["Autophase"].tolist()
        return program, features, cost, int(env.observation["IrInstructionCountOz"])
    except steplake.SteplakeError:
        return None


def tried(program, sequence):
    """Returns the smallest size on the way of a sequence, and the actions up to there that had an effect."""
    env = session()
    best, shortest, kept = begin(program), [], []
    if best is None:
        return math.inf, []
    for action in sequence:
        cost, _, terminated, _, info = env.step(action)
        if terminated:
            break
        if not info["action_had_no_effect"]:
            kept.append(action)
        if int(cost) < best:
            best, shortest = int(cost), list(kept)
    return best, shortest


def changed(draw, best, others, actions):
    """Returns another sequence: a change of the best one, or a mixture."""
    best = list(best)
    kind = draw.random()
    if kind < 0.25 and others:
        other = draw.choice(others)
        return (best + other)[:LENGTH_MAX]
    if kind < 0.4 and others:
        other = draw.choice(others)
        return (best[: draw.randint(0, len(best))] + other[draw.randint(0, len(other)) :])[:LENGTH_MAX]
    if kind < 0.5:
        return (best + [draw.choice(actions) for _ in range(12)])[:LENGTH_MAX]
    for _ in range(draw.choice([1, 2, 3, 5, 8])):
        place = draw.randint(0, len(best))
        if draw.random() < 0.25 and best:
            del best[min(place, len(best) - 1)]
        elif draw.random() < 0.4 and best:
            best[min(place, len(best) - 1)] = draw.choice(actions)
        else:
            best.insert(place, draw.choice(actions))
    return best[:LENGTH_MAX]


def searched(task):
    """Searches for one program, and returns the best sequence with its size."""
    program, seed, best, cost, others, trials, actions = task
    draw = random.Random(seed)
    if others:
        known = draw.sample(others, min(len(others), trials // 3))
    else:
        known = [[draw.choice(actions) for _ in range(60)] for _ in range(trials // 3)]
    for turn in range(trials):
        sequence = known[turn] if turn < len(known) else changed(draw, best, others, actions)
        found, shortest = tried(program, sequence)
        if found < cost or (found == cost and len(shortest) < len(best)):
            best, cost = shortest, found
    return program, best, cost


def savings(task):
    """The sizes that sequences lead to."""
    program, sequences = task
    return [tried(program, sequence)[0] for sequence in sequences]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--sequences", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    uris = arguments.programs.read_text().split()
    draw = random.Random(arguments.seed)
    began = time.monotonic()
    actions = trusted_actions()

    def say(text):
        print(f"{time.monotonic() - began:6.0f} s: {text}", flush=True)

    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        known = [one for one in pool.imap(about, uris) if one]
        say(f"{len(known)} of {len(uris)} programs")
        oz = {program: size for program, _, _, size in known}
        best = {program: ([], cost) for program, _, cost, _ in known}
        for turn in range(arguments.rounds):
            others = list({tuple(sequence) for sequence, _ in best.values() if sequence})
            others = [list(sequence) for sequence in draw.sample(others, min(len(others), 60))]
            tasks = [
                (program, draw.random(), *best[program], others, arguments.trials, actions)
                for program in best
            ]
            for program, sequence, cost in pool.imap_unordered(searched, tasks):
                best[program] = (sequence, cost)
            mean = sum(math.log(oz[program] / cost) for program, (_, cost) in best.items()) / len(best)
            say(f"round {turn + 1}: -Oz is {math.exp(mean):.4f} times as large")
            rows = {program: sequence for program, (sequence, _) in best.items()}
            arguments.out.with_suffix(".best.json").write_text(json.dumps(rows))
        sequences = [list(one) for one in {tuple(sequence) for sequence, _ in best.values() if sequence}]
        sizes = list(pool.imap(savings, [(program, sequences) for program in best]))
    # A sequence on which the compiler fails saves nothing.
    gains = [[math.log(oz[program] / min(size, known_size)) for size in row]
             for (program, _, known_size, _), row in zip(known, sizes)]
    reached, chosen = [0.0] * len(gains), []
    while len(chosen) < min(arguments.sequences, len(sequences)):
        def added(at):
            return sum(max(row[at] - so_far, 0) for row, so_far in zip(gains, reached))

        at = max((at for at in range(len(sequences)) if at not in chosen), key=added)
        chosen.append(at)
        reached = [max(row[at], so_far) for row, so_far in zip(gains, reached)]
        say(f"{len(chosen)} sequences: -Oz is {math.exp(sum(reached) / len(reached)):.4f} times as large")
    names = session().action_space.names
    arguments.out.write_text(
        json.dumps(
            {
                "compiler": session().compiler,
                "action_space": session().action_space.name,
                "cost": COST,
                "actions": [names[action] for action in actions],
                "sequences": [[names[action] for action in sequences[at]] for at in chosen],
                "programs": [
                    {"uri": program, "features": features, "savings": [round(row[at], 4) for at in chosen]}
                    for (program, features, *_), row in zip(known, gains)
                ],
            },
            indent=None,
        )
    )


if __name__ == "__main__":
    main()
