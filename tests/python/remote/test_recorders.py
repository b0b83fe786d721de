"""Recorders that share one published lake, as processes: examples/scaling/recorder.sh against an S3 server."""

import contextlib
import csv
import io
import os
import re
import signal
import sqlite3
import subprocess
import tempfile
import unittest
from pathlib import Path

import boto3

from test_remote import BUCKET, Server

SCRIPT = Path(__file__).resolve().parents[3] / "examples/scaling/recorder.sh"
STEPLAKE = Path(os.environ["STEPLAKE"]).resolve()
COUNT = 4
ROUNDS = 3
# More than a recorder plays before it can be killed.
EPISODES = 1000
TOY = f"--env toy-v0 --benchmark generator://toy-v0/0..3 --jobs 1 --episodes {EPISODES} --episode-length 10"
WAIT_SECONDS = 240
# What the tables hold, without the numbers of runs and measured times.
CONTENTS = {
    "episodes": "SELECT seed, ordinal, benchmark_uri, steps, outcome, detail FROM episodes",
    "steps": """SELECT seed, ordinal, step_index, steps.benchmark_uri, action, state_id, keyframe, end_of_episode,
        "reward_Cost", "reward_CostNorm", "reward_CostOz" FROM steps JOIN episodes USING (episode_id)""",
    "observations": "SELECT * FROM observations",
    "ir": "SELECT state_id, bytes, bitcode_sha1 FROM ir",
    "benchmarks": "SELECT * FROM benchmarks",
    "state_transitions": "SELECT state_id, action, next_state_id, count FROM state_transitions",
    "conflicts": "SELECT state_id, action, next_state_id, count FROM conflicts",
    "failures": "SELECT state_id, action, kind, count FROM failures",
}


class KillingServer(Server):
    """An S3 server that kills recorders at a request, before or after it is done.

    Each recorder has a key id of its own, by which `killed` has the pattern of the request.
    """

    def __init__(self):
        super().__init__()
        self.recorders, self.killed = {}, {}

    def answer(self, environ, start_response):
        signed = re.search(r"Credential=(\w+)/", environ.get("HTTP_AUTHORIZATION", ""))
        recorder = signed and signed[1]
        pattern, is_done_first = self.killed.get(recorder, (None, False))
        if not pattern or not re.search(pattern, f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"):
            return super().answer(environ, start_response)
        del self.killed[recorder]
        answered = super().answer(environ, start_response) if is_done_first else []
        os.killpg(self.recorders[recorder].pid, signal.SIGKILL)
        if not is_done_first:
            start_response("503 Service Unavailable", [])
        return answered


class Recorders(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="steplake-recorders-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.server = KillingServer()
        self.addCleanup(self.server.stop)
        self.environment = {
            **os.environ,
            "PATH": f"{STEPLAKE.parent}:{os.environ['PATH']}",
            "PLACE": f"s3://{BUCKET}/shared",
            "ARGUMENTS": TOY,
            "AWS_ENDPOINT_URL": self.server.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "reader",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }
        client = boto3.client(
            "s3",
            endpoint_url=self.server.endpoint,
            region_name="us-east-1",
            aws_access_key_id="reader",
            aws_secret_access_key="test",
        )
        client.create_bucket(Bucket=BUCKET)

    def steplake(self, lake, *arguments):
        command = [STEPLAKE, "--quiet", "--lake", lake, *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=WAIT_SECONDS)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
        return done.stdout

    def rows(self, lake, sql):
        return list(csv.reader(io.StringIO(self.steplake(lake, "sql", "--format", "csv", sql))))[1:]

    def start(self, index):
        scratch = self.folder / f"machine-{index}"
        scratch.mkdir(exist_ok=True)
        environment = {**self.environment, "SCRATCH": scratch, "AWS_ACCESS_KEY_ID": f"recorder{index}"}
        command = ["bash", SCRIPT, str(index), str(COUNT), str(ROUNDS)]
        log = open(scratch / "log", "a", encoding="utf-8")
        self.addCleanup(log.close)
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        self.addCleanup(self.end, process)
        self.server.recorders[f"recorder{index}"] = process
        return process

    def end(self, process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(WAIT_SECONDS)

    def log(self, index):
        return (self.folder / f"machine-{index}/log").read_text(encoding="utf-8")

    def kill_recording(self, index, process):
        """Kills a recorder that has rows in its hot log, and open episodes among them."""
        while process.poll() is None:
            lake = next((self.folder / f"machine-{index}").glob("*/lake/lake.json"), None)
            sql = "SELECT count(*) FROM frames WHERE table_name = 'episodes'"
            if lake:
                log = f"file:{lake.with_name('hot.sqlite')}?mode=ro"
                with contextlib.closing(sqlite3.connect(log, uri=True)) as connection:
                    if connection.execute(sql).fetchone()[0] > 0:
                        break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.01)
        self.end(process)

    def test_recorders_of_which_some_are_killed_lose_nothing_and_publish_nothing_twice(self):
        # In the middle of sending, and when a version has appeared, before the lake notes it.
        self.server.killed = {
            "recorder0": (r"PUT /lakes/shared/segments/steps/[0-9a-f]+-", False),
            "recorder1": (r"PUT /lakes/shared/manifests/", True),
        }
        processes = [self.start(index) for index in range(COUNT)]
        self.kill_recording(2, processes[2])
        for index, process in enumerate(processes):
            expected = -signal.SIGKILL if index < 3 else 0
            self.assertEqual(process.wait(WAIT_SECONDS), expected, self.log(index))
        self.assertEqual(self.server.killed, {})
        for process in [self.start(index) for index in range(3)]:
            self.assertEqual(process.wait(WAIT_SECONDS), 0, [self.log(index) for index in range(3)])

        place, newest = self.environment["PLACE"], self.folder / "newest"
        versions = re.findall(r"^ *(\d+)", self.steplake(newest, "fetch", place, "--list"), re.MULTILINE)
        self.assertGreaterEqual(len(versions), COUNT * ROUNDS, versions)
        for number in versions:
            self.steplake(newest, "fetch", place, "--version", number)
            self.assertIn("sound", self.steplake(newest, "verify"), number)
        runs = self.rows(newest, "SELECT count(*), count(DISTINCT uid), bool_and(finished) FROM runs")
        self.assertEqual(runs, [[str(COUNT * ROUNDS)] * 2 + ["true"]])
        # Recorders that know nothing of each other, and a machine that merges.
        by_hand = [self.folder / f"by-hand-{index}" for index in range(COUNT)]
        for index, lake in enumerate(by_hand):
            for played in range(ROUNDS):
                self.steplake(lake, "generate", "--seed", str(played * COUNT + index), *TOY.split())
        whole = self.folder / "whole"
        self.steplake(whole, "merge", *by_hand, "--into", whole)
        self.steplake(whole, "dedup")
        for table, sql in CONTENTS.items():
            self.assertEqual(sorted(self.rows(newest, sql)), sorted(self.rows(whole, sql)), table)


if __name__ == "__main__":
    unittest.main()
