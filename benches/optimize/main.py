"""What `steplake optimize` saves on programs that it was not trained on, beside other searches.

    python3 benches/optimize/main.py FOLDER [--objective ir|size] [--programs FILE] [--jobs 2]
        [--steplake PROGRAM] [--methods coreset,random,…] [--budget 45] [--length 256]

Every method has the same number of compilations for each program. `--length` is the greatest length
of a sequence, which is 256 for `coreset`. `coreset` is `steplake optimize` itself, with its checks;
`greedy`, `hill-climbing` and `genetic` are policies of `steplake generate`, and `random` too for
instructions; `nevergrad` (its DiscreteLenglerOnePlusOne, as in the paper) needs the Python package
of steplake and nevergrad, and so does `random` for sizes. A sequence counts for the fewest
instructions on its way. For sizes, machine code is made once for each sequence, where it has the
fewest instructions; greedy's sequences are one action longer than known ones, and hill climbing and
genetic search, which make machine code of each state, are left out.
Prints, for each method, by how much less the programs cost than after -Oz: geometric means, with
intervals of 95% by bootstrap over programs. A result that is larger than that of -Oz counts as -Oz,
which is a compilation too. Results stay in FOLDER, and are not made again.
"""

import argparse
import csv
import io
import json
import math
import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# What `optimize` lowers for each objective.
COSTS = {"ir": "IrInstructionCount", "size": "ObjectTextSizeBytesCodegenOz"}
POLICIES = {"random": "random", "greedy": "greedy", "hill-climbing": "hill-climbing", "genetic": "genetic"}
RESAMPLES = 10_000
INTERVAL_PROGRAMS_MIN = 5
FIRST = re.compile(r": ([\d,]+) \w+ untouched, ([\d,]+) after -Oz, ([\d,]+) after -O3")
SECOND = re.compile(r"tried: ([\d,]+) \w+ after ([\d,]+) pass")


def number(text):
    return int(text.replace(",", ""))


def ask(run, lake, sql):
    command = [*run, f"--lake={lake}", "sql", "--format=csv", sql]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(csv.DictReader(io.StringIO(answer)))


def optimized(run, lake, program, objective, budget):
    """Runs `optimize`; returns the costs untouched, after -Oz and -O3, and the result's."""
    command = [*run, f"--lake={lake}", "optimize", program, f"--objective={objective}", f"--budget={budget}"]
    done = subprocess.run(command, capture_output=True, text=True)
    sizes = FIRST.search(done.stdout)
    if not sizes:
        return {"error": done.stderr.strip()[-300:]}
    before, oz, o3 = map(number, sizes.groups())
    found = SECOND.search(done.stdout)
    wrong = re.search(r"([\d,]+) smaller programs? (?:is|are) left out", done.stdout)
    wrong = number(wrong[1]) if wrong else 0
    checked = "checked: the program does" in done.stdout
    after = number(found[1]) if found else oz
    return {"before": before, "oz": oz, "o3": o3, "after": after, "wrong": wrong, "checked": checked}


def generated(run, lake, program, policy, objective, budget, length):
    """Runs a policy; returns the lowest cost that it came to."""
    cost = COSTS[objective]
    search = [] if policy == "random" else [f"--objective={cost}"]
    command = [
        *(*run, f"--lake={lake}", "generate", f"--benchmark={program}", f"--policy={policy}", "--ir=none"),
        *(f"--observe={cost}", "--rewards=IrInstructionCount", f"--episodes={budget}", "--jobs=1"),
        *(f"--episode-length={length}", *search),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr.strip()[-300:]}
    [row] = ask(run, lake, f'SELECT min("{cost}") AS after FROM observations')
    return {"after": int(row["after"])}


class Sequences:
    """Plays sequences on a program, in Python."""

    def __init__(self, env, objective):
        self._env, self._space = env, COSTS[objective]
        env.reset()
        self.untouched = int(env.observation[self._space])

    def cost(self, actions):
        """Returns what a sequence costs."""
        count, _ = self._env.reset()
        lowest, best = int(count), 0
        for place, action in enumerate(actions, 1):
            count, _, terminated, *_ = self._env.step(action)
            if terminated:
                break
            if int(count) < lowest:
                lowest, best = int(count), place
        if self._space == COSTS["ir"]:
            return lowest
        self._env.reset()
        if best:
            self._env.multistep(actions[:best])
        return int(self._env.observation[self._space])


def in_python(search, program, objective, budget, length):
    """Runs a search of Python; returns the lowest cost that it came to."""
    import steplake

    with steplake.make("llvm-v0", observation_space=COSTS["ir"], reward_space=None, benchmark=program) as env:
        sequences, count = Sequences(env, objective), len(env.action_space.names)
        return {"after": min(sequences.untouched, *search(sequences, count, budget, length))}


def drawn(sequences, count, budget, length):
    """Draws sequences of any length, and returns their costs."""
    draw = random.Random(0)
    lengths = (draw.randint(1, length) for _ in range(budget))
    return [sequences.cost([draw.randrange(count) for _ in range(many)]) for many in lengths]


def asked_of_nevergrad(sequences, count, budget, length):
    """Asks Nevergrad for sequences, and returns their costs."""
    import nevergrad

    # Without `deterministic`, each ask draws nearly all actions anew.
    space = nevergrad.p.Choice(range(count), repetitions=length, deterministic=True)
    optimizer = nevergrad.optimizers.registry["DiscreteLenglerOnePlusOne"](parametrization=space, budget=budget)
    costs = []
    for _ in range(budget):
        asked = optimizer.ask()
        costs.append(sequences.cost(list(asked.value)))
        optimizer.tell(asked, costs[-1])
    return costs


def described(logarithms):
    """The geometric mean, and its interval over samples with replacement, as savings in percent.

    Too few programs have no interval: they say next to nothing of others.
    """
    draw = random.Random(1)
    count = len(logarithms)
    if count < INTERVAL_PROGRAMS_MIN:
        return f"{100 * (1 - math.exp(sum(logarithms) / count)):.2f}%"
    means = sorted(sum(draw.choices(logarithms, k=count)) / count for _ in range(RESAMPLES))
    mean, low, high = sum(logarithms) / count, means[-RESAMPLES // 40], means[RESAMPLES // 40]
    saved = [100 * (1 - math.exp(one)) for one in (mean, low, high)]
    return "{:.2f}% ({:.2f} to {:.2f})".format(*saved)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--objective", choices=COSTS, default="ir")
    parser.add_argument("--programs", type=Path, default=Path(__file__).with_name("held-out.txt"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", type=int, default=45)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--steplake", default="steplake")
    parser.add_argument("--methods", default="coreset,random,greedy,hill-climbing,genetic,nevergrad")
    arguments = parser.parse_args()
    run, objective = [arguments.steplake, "--quiet"], arguments.objective
    budget, length = arguments.budget, arguments.length
    arguments.folder.mkdir(parents=True, exist_ok=True)
    programs = arguments.programs.read_text().split()

    def measured(method, place):
        program = programs[place]
        searched = f"{method}x{length}" if method != "coreset" else method
        kept = arguments.folder / f"{objective}-{budget}-{searched}.{place}.json"
        if kept.exists():
            return json.loads(kept.read_text())
        lake = arguments.folder / f"{kept.stem}.lake"
        if method == "coreset":
            result = optimized(run, lake, program, objective, budget)
        elif method == "nevergrad":
            result = in_python(asked_of_nevergrad, program, objective, budget, length)
        elif method == "random" and objective == "size":
            result = in_python(drawn, program, objective, budget, length)
        else:
            result = generated(run, lake, program, POLICIES[method], objective, budget, length)
        subprocess.run(["rm", "-rf", lake], check=True)
        kept.write_text(json.dumps({"program": program, **result}))
        return result

    results = {}
    for method in arguments.methods.split(","):
        with ThreadPoolExecutor(arguments.jobs) as pool:
            results[method] = list(pool.map(lambda place: measured(method, place), range(len(programs))))
        base = results.get("coreset")
        if base is None:
            continue
        for name, families in {"all": "", "csmith": "csmith", "Debian": "debian-v0"}.items():
            rows = [
                (one, first)
                for one, first, program in zip(results[method], base, programs)
                if families in program and "after" in one and first.get("oz")
            ]
            if rows:
                logarithms = [math.log(min(one["after"], first["oz"]) / first["oz"]) for one, first in rows]
                text = f"{method:14} {name:7} {len(rows):4} programs: {described(logarithms)} less than -Oz"
                if method != "coreset":
                    ahead = [
                        math.log(min(first["after"], first["oz"]) / min(one["after"], first["oz"])) for one, first in rows
                    ]
                    smaller, larger = sum(one < 0 for one in ahead), sum(one > 0 for one in ahead)
                    text += f"; coreset {described(ahead)} less than it, smaller on {smaller}, larger on {larger}"
                print(text, flush=True)
        if method == "coreset":
            # A file of tables has no instructions.
            rows = [row for row in base if row.get("oz")]
            print(
                f"{'':14} smaller than -Oz: {sum(row['after'] < row['oz'] for row in rows)} of {len(rows)}; "
                f"run and found equal: {sum(row['checked'] for row in rows)}; sequences that were left out since "
                f"they changed a program: {sum(row['wrong'] for row in rows)}; could not be started: "
                f"{sum('error' in row for row in base)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
