"""The files of examples/scaling do what docs/SCALING.md says, as far as that can be tried on one machine."""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import unittest
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parents[3]
EXAMPLES = REPOSITORY / "examples/scaling"
STEPLAKE = Path(os.environ["STEPLAKE"]).resolve()
TOY = "--env toy-v0 --benchmark generator://toy-v0/0..3 --jobs 1"
WAIT_SECONDS = 240
# More than a shard plays before it can be told to stop.
MANY = 4000


class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="steplake-examples-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def environment(self, scratch, **more):
        path = f"{STEPLAKE.parent}:{os.environ['PATH']}"
        (self.folder / scratch).mkdir(exist_ok=True)
        place, scratch = f"file://{self.folder}/published", str(self.folder / scratch)
        return {**os.environ, "PATH": path, "PLACE": place, "SCRATCH": scratch, "TMPDIR": scratch, **more}

    def ends(self, name, *arguments, environment):
        command = ["bash", str(EXAMPLES / name), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT_SECONDS)
        return done.returncode, done.stdout, done.stderr

    def bash(self, name, *arguments, environment):
        code, out, err = self.ends(name, *arguments, environment=environment)
        self.assertEqual(code, 0, err)
        return out

    def lake(self, environment, index=0):
        [lake] = Path(environment["SCRATCH"]).glob(f"steplake-????????????????-shard-{index}")
        return lake

    def has_played(self, log):
        sql = "SELECT count(*) FROM frames WHERE table_name = 'episodes'"
        with contextlib.closing(sqlite3.connect(f"file:{log}?mode=ro", uri=True)) as connection:
            return connection.execute(sql).fetchone()[0] > 0

    def stop(self, index, count, environment):
        """Starts a shard, tells it to stop once it has played something, and asserts that it is interrupted."""
        process = subprocess.Popen(["bash", str(EXAMPLES / "shard.sh"), str(index), str(count)], env=environment)
        lakes = f"steplake-*-shard-{index}/lake.json"
        while process.poll() is None:
            lake = next(Path(environment["SCRATCH"]).glob(lakes), None)
            if lake and self.has_played(lake.with_name("hot.sqlite")):
                break
            try:
                process.wait(0.01)
            except subprocess.TimeoutExpired:
                pass
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(WAIT_SECONDS), 130)

    def published(self, index, name):
        into = self.folder / name
        fetch = [STEPLAKE, "fetch", f"file://{self.folder}/published/shard-{index}", "--into", into]
        subprocess.run(fetch, check=True, capture_output=True)
        return into

    def count(self, lake, table):
        command = [STEPLAKE, "--lake", lake, "sql", f"SELECT count(*) AS n FROM {table}", "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)[0]["n"]

    def test_shards_of_slurm_become_one_lake(self):
        arguments = f"{TOY} --episodes 31"
        for index in range(3):
            environment = self.environment(
                f"node-{index}",
                ARGUMENTS=arguments,
                SLURM_ARRAY_TASK_ID=str(index),
                SLURM_ARRAY_TASK_COUNT="3",
                SLURM_SUBMIT_DIR=str(EXAMPLES),
            )
            self.bash("slurm.sbatch", environment=environment)
        # What is complete is not done again, on another machine either.
        again = self.environment("elsewhere", ARGUMENTS=arguments)
        self.assertIn("nothing to publish", self.bash("shard.sh", "1", "3", environment=again))
        self.bash("merge.sh", "3", environment=self.environment("merging"))
        whole = self.folder / "whole"
        fetch = [STEPLAKE, "fetch", f"file://{self.folder}/published/whole", "--into", whole]
        subprocess.run(fetch, check=True, capture_output=True)
        alone = self.folder / "alone"
        generate = [STEPLAKE, "--lake", alone, "generate", *arguments.split()]
        subprocess.run(generate, check=True, capture_output=True)
        for table in ("episodes", "steps", "observations"):
            self.assertEqual(self.count(whole, table), self.count(alone, table), table)

    def test_a_shard_that_is_stopped_goes_on_elsewhere_and_comes_back(self):
        arguments = f"{TOY} --episodes {2 * MANY}"
        first = self.environment("first", ARGUMENTS=arguments)
        self.stop(0, 2, first)
        self.assertLess(self.count(self.lake(first), "episodes"), MANY)
        # One that is not complete is not merged as if it were.
        code, _, said = self.ends("merge.sh", "1", environment=self.environment("merging"))
        self.assertEqual(code, 3, said)
        self.assertIn("not complete: shard 0 of 1", said)
        # It goes on there, and the machine is lost before any of that is published.
        generate = [STEPLAKE, "--lake", self.lake(first), "generate", "--resume", "--shard", "0/2"]
        subprocess.run([*generate, *arguments.split()], check=True, capture_output=True)
        # Two others play the rest, so that it is sealed in other files.
        self.stop(0, 2, self.environment("second", ARGUMENTS=arguments))
        third = self.environment("third", ARGUMENTS=arguments)
        self.bash("shard.sh", "0", "2", environment=third)
        self.assertEqual(self.count(self.lake(third), "episodes"), MANY)
        # The machine is back, with another lake of the same episodes; and once more, with that of a fetch.
        for is_behind in (True, False):
            code, out, err = self.ends("shard.sh", "0", "2", environment=first)
            self.assertEqual(code, 0, err)
            self.assertIn("nothing to publish", out)
            self.assertEqual("is not known to have" in err, is_behind, err)
        self.assertEqual(self.count(self.lake(first), "episodes"), MANY)
        self.bash("merge.sh", "1", environment=self.environment("merging"))

    def test_what_was_recorded_and_not_published_goes_first(self):
        arguments = f"{TOY} --episodes 40"
        environment = self.environment("node", ARGUMENTS=arguments)
        self.bash("shard.sh", "0", "2", environment=environment)
        # As if the machine had gone before anything was published, and after it, in turn.
        shutil.rmtree(self.folder / "published")
        self.assertIn("published version 1", self.bash("shard.sh", "0", "2", environment=environment))
        environment["ARGUMENTS"] = arguments + " --seed 7"
        self.bash("shard.sh", "0", "2", environment=environment)
        self.assertEqual(self.count(self.published(0, "there"), "episodes"), 40)

    def test_a_store_that_does_not_answer_is_not_an_empty_one(self):
        unreachable = {
            "PLACE": "s3://lakes/run",
            "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }
        environment = self.environment("node", ARGUMENTS=f"{TOY} --episodes 4", **unreachable)
        code, _, said = self.ends("shard.sh", "0", "2", environment=environment)
        self.assertEqual(code, 5, said)
        self.assertEqual(list(Path(environment["SCRATCH"]).iterdir()), [])

    def test_a_fetch_that_was_killed_is_gone_on_with(self):
        arguments = f"{TOY} --episodes 31"
        self.bash("shard.sh", "0", "2", environment=self.environment("one", ARGUMENTS=arguments))
        environment = self.environment("other", ARGUMENTS=arguments)
        name = self.lake({"SCRATCH": self.folder / "one"}).name
        lake = Path(environment["SCRATCH"]) / name
        # What a killed fetch leaves.
        (lake / "fetching").mkdir(parents=True)
        (lake / "fetch.unfinished").write_text("", encoding="utf-8")
        self.assertIn("nothing to publish", self.bash("shard.sh", "0", "2", environment=environment))
        self.assertEqual(self.count(lake, "episodes"), 16)

    def test_two_places_have_nothing_to_do_with_each_other(self):
        arguments = f"{TOY} --episodes 8"
        one = self.environment("node", ARGUMENTS=arguments)
        other = {**one, "PLACE": f"{one['PLACE']}-other", "ARGUMENTS": f"{TOY} --episodes 6 --seed 3"}
        for environment in (one, other):
            self.assertIn("published version 1", self.bash("shard.sh", "0", "2", environment=environment))
        self.assertEqual(len(list(Path(one["SCRATCH"]).glob("steplake-*-shard-0"))), 2)
        self.assertEqual(self.count(self.published(0, "there"), "episodes"), 4)

    def test_files_are_well_formed(self):
        for script in [*EXAMPLES.glob("*.sh"), EXAMPLES / "slurm.sbatch"]:
            subprocess.run(["bash", "-n", script], check=True)
        for program in EXAMPLES.glob("*.py"):
            compile(program.read_text(encoding="utf-8"), str(program), "exec")
        job = yaml.safe_load((EXAMPLES / "kubernetes.yaml").read_text(encoding="utf-8"))
        self.assertEqual((job["kind"], job["spec"]["completionMode"]), ("Job", "Indexed"))
        [container] = job["spec"]["template"]["spec"]["containers"]
        self.assertTrue(container["command"][-1].endswith(f" {job['spec']['completions']}"))

    def test_the_page_shows_these_files(self):
        page = (REPOSITORY / "docs/SCALING.md").read_text(encoding="utf-8")
        shown = re.findall(r"^```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        for name in ("shard.sh", "slurm.sbatch", "kubernetes.yaml", "ray_shards.py", "recorder.sh", "merge.sh"):
            self.assertIn((EXAMPLES / name).read_text(encoding="utf-8"), shown, name)


if __name__ == "__main__":
    unittest.main()
