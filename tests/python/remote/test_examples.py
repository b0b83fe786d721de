"""The files of examples/scaling do what docs/SCALING.md says, as far as that can be tried on one machine."""

import json
import os
import re
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parents[3]
EXAMPLES = REPOSITORY / "examples/scaling"
STEPLAKE = Path(os.environ["STEPLAKE"]).resolve()
TOY = "--env toy-v0 --benchmark generator://toy-v0/0..3 --jobs 1"
WAIT_SECONDS = 120


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

    def bash(self, name, *arguments, environment):
        command = ["bash", str(EXAMPLES / name), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

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

    def test_a_shard_that_is_stopped_goes_on_elsewhere(self):
        arguments = f"{TOY} --episodes 3000"
        first = self.environment("first", ARGUMENTS=arguments)
        lake = Path(first["SCRATCH"]) / "steplake-shard-0"
        process = subprocess.Popen(["bash", str(EXAMPLES / "shard.sh"), "0", "2"], env=first)
        while process.poll() is None and not (lake / "lake.json").exists():
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                pass
        process.send_signal(signal.SIGTERM)
        self.assertIn(process.wait(WAIT_SECONDS), (0, 130))
        second = self.environment("second", ARGUMENTS=arguments)
        self.bash("shard.sh", "0", "2", environment=second)
        self.assertEqual(self.count(Path(second["SCRATCH"]) / "steplake-shard-0", "episodes"), 1500)

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
        for name in ("shard.sh", "slurm.sbatch", "kubernetes.yaml", "ray_shards.py", "merge.sh"):
            self.assertIn((EXAMPLES / name).read_text(encoding="utf-8"), shown, name)


if __name__ == "__main__":
    unittest.main()
