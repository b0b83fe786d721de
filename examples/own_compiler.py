"""A compiler of one's own: an optimiser for a stack machine, recorded and asked (`[LAKE]`)."""

import random
import sys
import tempfile

import steplake

CYCLES = {"push": 0.5, "load": 2.25, "dup": 0.4, "drop": 0.1, "add": 1.0, "mul": 3.5, "shl": 0.7}


def fold(a, b, op):
    """push 2, push 3, add: push 5"""
    if a[0] == b[0] == "push" and op[0] in ("add", "mul"):
        result = a[1] + b[1] if op[0] == "add" else a[1] * b[1]
        if result >= 2**31:
            raise OverflowError(f"{result} does not fit into a push")
        return [("push", result)]


def drop_unused(a, b):
    """load x, drop: nothing"""
    return [] if a[0] in ("push", "load", "dup") and b[0] == "drop" else None


def reduce_strength(a, b):
    """push 8, mul: push 3, shl; and push 1, mul: nothing"""
    if a[0] == "push" and b[0] == "mul" and a[1].bit_count() == 1:
        return [("push", a[1].bit_length() - 1), ("shl",)] if a[1] > 1 else []


def commute(a, b, op):
    """push 2, load x, add: load x, push 2, add"""
    if {a[0], b[0]} <= {"push", "load"} and op[0] in ("add", "mul"):
        return [b, a, op]


def reuse(a, b):
    """load x, load x: load x, dup"""
    return [a, ("dup",)] if a[0] == "load" and a == b else None


PASSES = {
    "fold": (3, fold),
    "drop-unused": (2, drop_unused),
    "reduce-strength": (2, reduce_strength),
    "commute": (3, commute),
    "reuse": (2, reuse),
}


class Stack(steplake.Compiler):
    name = "stack-v0"
    version = "stack 1.0"
    actions = list(PASSES)
    observations = {"Ops": (int, list(CYCLES)), "Length": int, "Cycles": float}
    rewards = {"Cycles": "Cycles", "Length": "Length"}
    programs = {
        "square": b"push 2\npush 3\nmul\nload x\nmul\nload x\nload x\nmul\nadd",
        "scale": b"load x\npush 4\npush 2\nmul\nmul\nload y\ndrop\npush 1\nmul",
        "large": b"push 65536\npush 65536\nmul\nload x\nadd",
    }

    def start(self, program):
        lines = [line.split() for line in program.decode().splitlines()]
        self.code = [(op, *(int(x) if op == "push" else x for x in rest)) for op, *rest in lines]
        if unknown := {op for op, *_ in self.code} - CYCLES.keys():
            raise ValueError(f"there is no instruction {unknown.pop()!r}")

    def apply(self, action):
        (width, rule), old, self.code = PASSES[action], self.code, []
        while old:
            new = rule(*old[:width]) if len(old) >= width else None
            self.code += old[:1] if new is None else new
            old = old[1 if new is None else width :]

    def save(self):
        return "\n".join(" ".join(map(str, op)) for op in self.code).encode()

    def observe(self, space):
        counts = [sum(op[0] == name for op in self.code) for name in CYCLES]
        cycles = sum(CYCLES[op[0]] for op in self.code)
        return {"Ops": counts, "Length": len(self.code), "Cycles": cycles}[space]


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp() + "/lake"
    env, dice = steplake.make(Stack), random.Random(0)
    with steplake.record(path, env, policy="random", seed=0):
        for name in 20 * list(Stack.programs):
            env.reset(options={"benchmark": f"benchmark://stack-v0/{name}"})
            while len(env.actions) < 12 and not env.step(dice.randrange(len(PASSES)))[2]:
                pass
    lake = steplake.open(path, progress=False)
    report = lake.dedup()
    print(f"{report.steps} steps, {report.transitions} transitions")
    for uri, cost, best, _steps, passes, *_ in lake.query("best_cost", cost="Cycles").fetchall():
        print(f"{uri}: {cost:.1f} cycles, {best:.1f} after {passes or 'nothing'}")
    print(*lake.sql("SELECT action_name(action), detail FROM failures").fetchone(), sep=": ")
