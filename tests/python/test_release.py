"""`make release` with a few thousand states: killed, resumed, whole, and read as its readers would."""

import csv
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import duckdb
import pyarrow.dataset as ds

REPOSITORY = Path(__file__).parents[2]
STATES = 1200


class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="steplake-release-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.release = cls.folder / "release"
        programs = cls.folder / "programs"
        programs.write_text("# Without a network.\nbenchmark://steplake-v0/*\n")
        settings = {
            "RELEASE": cls.release,
            "WORK": cls.folder / "work",
            "PROGRAMS": programs,
            "REPLAY": "50",
        }
        cls.environment = {**os.environ, **{name: str(value) for name, value in settings.items()}}
        cls.kill_while_it_records()
        done = cls.run_release()
        assert done.returncode == 0, done.stderr

    @classmethod
    def run_release(cls, states=STATES):
        command = [REPOSITORY / "scripts/release.sh", str(states)]
        pipes = {"capture_output": True, "text": True}
        return subprocess.run(command, check=False, env=cls.environment, **pipes)

    @classmethod
    def kill_while_it_records(cls):
        command = [REPOSITORY / "scripts/release.sh", str(STATES)]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        group = {"env": cls.environment, "start_new_session": True}
        with subprocess.Popen(command, **pipes, **group) as call:
            said = ""
            while "2. Recording" not in said:
                line = call.stderr.readline()
                assert line, said
                said += line
            os.killpg(call.pid, signal.SIGKILL)
        assert not cls.release.exists()

    def rows(self):
        return ds.dataset(self.release / "data", format="parquet")

    def test_nothing_is_left_beside_it(self):
        names = {path.name for path in self.folder.iterdir()}
        self.assertEqual(names, {"programs", "release", "work"})

    def test_the_checksums_are_those_of_all_files(self):
        sums = dict(
            reversed(line.split("  "))
            for line in (self.release / "SHA256SUMS").read_text().splitlines()
        )
        files = {p.relative_to(self.release).as_posix(): p for p in self.release.rglob("*.*")}
        beside = {"README.md", "actions.csv", "load.py", "programs.csv"}
        self.assertEqual(set(sums), beside | {name for name in files if name.startswith("data/")})
        for name, digest in sums.items():
            self.assertEqual(hashlib.sha256(files[name].read_bytes()).hexdigest(), digest, name)

    def test_the_figures_of_the_card(self):
        card = (self.release / "README.md").read_text()
        self.assertIn("| replay rate | 50 of 50 transitions", card)
        self.assertIn("at least 94.18% of all do", card)  # 0.05 ** (1 / 50)
        self.assertRegex(card, r"\| conflicts \| 0 of [\d,]+ pairs")
        [check] = re.findall(r"```sql\n(.*?)```", card, re.DOTALL)
        database = duckdb.connect()
        database.execute(f"SET file_search_path = '{self.release}'")
        test_states, leaked = database.execute(check).fetchone()
        self.assertIn(f"| leak check | {leaked} of the {test_states:,} states of test rows", card)
        self.assertEqual(leaked, 0)
        self.assertGreater(test_states, 0)

    def test_the_programs_are_of_the_part_that_their_rows_are_of(self):
        with (self.release / "programs.csv").open(newline="") as file:
            programs = list(csv.DictReader(file))
        self.assertEqual(len(programs), 25)
        table = self.rows().to_table(["state_id", "split"]).to_pylist()
        parts = {row["state_id"].hex(): row["split"] for row in table}
        for program in programs:
            self.assertEqual(program["split"], parts[program["initial_state_id"]], program)
            self.assertEqual(program["licence"], "MIT")
        self.assertEqual({program["split"] for program in programs}, {"train", "test"})

    def test_the_script_for_readers(self):
        script = (self.release / "load.py").read_text()
        lines = [line for line in script.splitlines() if line]
        self.assertLessEqual(len(lines), 1 + 10)
        command = [sys.executable, "load.py"]
        said = subprocess.run(
            command, cwd=self.release, check=True, capture_output=True, text=True
        ).stdout
        train = self.rows().count_rows(filter=ds.field("split") == "train")
        self.assertIn(f"train: {train:,} rows of 15 columns", said)
        self.assertRegex(said, r"(?m)^ +0\.\d+  (sroa|mem2reg)$")

    def test_a_release_is_not_replaced_and_its_work_not_mixed(self):
        again = self.run_release()
        self.assertEqual(again.returncode, 1)
        self.assertIn("is there, complete", again.stderr)
        self.environment["RELEASE"] = str(self.folder / "other")
        try:
            other = self.run_release(STATES + 1)
        finally:
            self.environment["RELEASE"] = str(self.release)
        self.assertEqual(other.returncode, 1)
        self.assertIn(f"is of {STATES} states, not of {STATES + 1}", other.stderr)


if __name__ == "__main__":
    unittest.main()
