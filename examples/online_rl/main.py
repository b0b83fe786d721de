"""The tables VI and VII and the figure 9 of the CompilerGym paper, in a reduced form.

    python examples/online_rl/main.py OUTPUT [--steps 20000] [--seeds 1]

trains every agent of the three, one after the other, and writes `results.csv`, `tables.md` and a
plot into the folder OUTPUT. A run that is there is not made again, so a command that broke off can
be given again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tables
from programs import FAMILIES
from setting import OBSERVATIONS

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Cell:
    """A training run that a table needs.

    Attributes
    ----------
    script, algorithm : str
        The file that trains, and the algorithm there.
    train, observe : str
        The family to learn from, and what the agent sees.
    """

    script: str = "ppo"
    algorithm: str = "ppo"
    train: str = "csmith"
    observe: str = "autophase+history"

    def folder(self, seed: int) -> str:
        """Return the name of the folder of the run."""
        return f"{self.script}-{self.algorithm}-{self.train}-{self.observe}-{seed}"


# All tables have the run of `ppo.py` with the paper's setting in common.
TABLE_VI = [
    *(Cell("baselines", algorithm) for algorithm in ("random", "by-hand")),
    Cell(),
    *(Cell("sb3", algorithm) for algorithm in ("ppo", "a2c")),
    *(Cell("rllib", algorithm) for algorithm in ("ppo", "appo", "impala", "dqn")),
]
TABLE_VII = [Cell(train=family) for family in FAMILIES]
FIGURE_9 = [Cell(observe=observe) for observe in OBSERVATIONS]


def run(cell: Cell, seed: int, folder: Path, options: list[str]) -> dict[str, Any]:
    """Train an agent, unless a run before has, and return what came out."""
    done = folder / cell.folder(seed) / "run.json"
    if not done.exists():
        print(f"{cell.folder(seed)} …", flush=True)
        command = [sys.executable, str(HERE / f"{cell.script}.py"), str(done.parent)]
        command += ["--algorithm", cell.algorithm, "--train", cell.train]
        command += ["--observe", cell.observe, "--seed", str(seed), *options]
        tested = FAMILIES if cell in TABLE_VII else ("csmith",)
        command += [part for family in tested for part in ("--test", family)]
        subprocess.run(command, check=True)
    result: dict[str, Any] = json.loads(done.read_text())
    return {**result, "script": cell.script}


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path, help="the folder of the runs and the results")
    parser.add_argument("--seeds", type=int, default=1, help="how often every agent is trained")
    parser.add_argument("--only", choices=("VI", "VII", "9"), help="one table alone")
    for name, usual in {
        "steps": 20_000,
        "envs": 8,
        "programs": 100,
        "validation": 16,
        "test-programs": 50,
        "checks": 4,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=usual, help="see ppo.py --help")
    arguments = parser.parse_args()
    passed = ("steps", "envs", "programs", "validation", "test_programs", "checks")
    options = [
        part
        for name in passed
        for part in (f"--{name.replace('_', '-')}", str(getattr(arguments, name)))
    ]
    wanted = {"VI": TABLE_VI, "VII": TABLE_VII, "9": FIGURE_9}
    if arguments.only:
        wanted = {arguments.only: wanted[arguments.only]}
    folder: Path = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    results = {
        name: [
            [run(cell, seed, folder, options) for seed in range(arguments.seeds)] for cell in cells
        ]
        for name, cells in wanted.items()
    }
    tables.write(folder, results)
    print((folder / "tables.md").read_text())


if __name__ == "__main__":
    main()
