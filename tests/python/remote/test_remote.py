"""Lakes go to an S3 server and come back: moto's, which speaks the protocol of the real one."""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

# Before moto reads it: files are sent in parts however small they are.
os.environ["S3_UPLOAD_PART_MIN_SIZE"] = "1"

import boto3
from botocore.exceptions import ClientError
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET = "lakes"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
}
WAIT_SECONDS = 120


class Quiet(WSGIRequestHandler):
    def log_request(self, *_):
        pass


class Server:
    """An S3 server. `before` is called with each request's method and path, and may keep it waiting."""

    def __init__(self):
        self.app = DomainDispatcherApplication(create_backend_app)
        self.lock = threading.Lock()
        self.before = lambda method, path: None
        self.server = make_server("127.0.0.1", 0, self.answer, threaded=True, request_handler=Quiet)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, environ, start_response):
        self.before(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        # moto looks whether an object is there and then writes it: here, as in S3, that is one step.
        with self.lock:
            return list(self.app(environ, start_response))

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Remote(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.stop)
        cls.s3 = boto3.client(
            "s3",
            endpoint_url=cls.server.endpoint,
            region_name=CREDENTIALS["AWS_REGION"],
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        cls.s3.create_bucket(Bucket=BUCKET)
        folder = tempfile.TemporaryDirectory(prefix="steplake-remote-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)

    def setUp(self):
        self.server.before = lambda method, path: None
        self.place = f"s3://{BUCKET}/{self._testMethodName}"

    def command(self, lake, *arguments):
        if arguments[0] in ("publish", "fetch"):
            arguments = (*arguments, "--endpoint", self.server.endpoint, "--allow-http")
        return [os.environ["STEPLAKE"], "--quiet", "--lake", str(lake), *arguments]

    def start(self, lake, *arguments):
        return subprocess.Popen(
            self.command(lake, *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **CREDENTIALS},
        )

    def end(self, process):
        out, err = process.communicate(timeout=WAIT_SECONDS)
        return process.returncode, out, err

    def steplake(self, lake, *arguments):
        code, out, err = self.end(self.start(lake, *arguments))
        self.assertEqual(code, 0, f"{arguments}: {err}")
        return out

    def fails(self, lake, *arguments):
        code, _, err = self.end(self.start(lake, *arguments))
        self.assertNotEqual(code, 0, f"{arguments} was to fail")
        return code, err

    def record(self, lake, seed, episodes=6):
        programs = "generator://toy-v0/0..3"
        self.steplake(
            lake,
            *["generate", "--env", "toy-v0", "--benchmark", programs, "--episodes", str(episodes)],
            *["--seed", str(seed), "--jobs", "1"],
        )
        self.steplake(lake, "seal")
        self.steplake(lake, "dedup")

    def lake(self, name, seed):
        lake = self.folder / f"{self._testMethodName}-{name}"
        self.record(lake, seed)
        return lake

    def rows(self, lake, table):
        sql = f"SELECT * FROM {table}"
        rows = json.loads(self.steplake(lake, "sql", sql, "--format", "json"))
        return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))

    def assert_same(self, one, other):
        for table in ("benchmarks", "episodes", "steps", "observations", "ir", "state_transitions", "runs"):
            self.assertEqual(self.rows(one, table), self.rows(other, table), table)

    def episodes(self, lake):
        sql = """SELECT r.uid, e.ordinal FROM episodes e JOIN runs r USING (run_id) ORDER BY 1, 2"""
        return [tuple(row.values()) for row in json.loads(self.steplake(lake, "sql", sql, "--format", "json"))]

    def keys(self, place=None):
        prefix = (place or self.place).removeprefix(f"s3://{BUCKET}/") + "/"
        found = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return [entry["Key"] for entry in found.get("Contents", [])]

    def test_the_server_refuses_what_is_there_already(self):
        put = {"Bucket": BUCKET, "Key": "once", "IfNoneMatch": "*"}
        self.s3.put_object(Body=b"first", **put)
        with self.assertRaises(ClientError) as refused:
            self.s3.put_object(Body=b"second", **put)
        self.assertEqual(refused.exception.response["ResponseMetadata"]["HTTPStatusCode"], 412)
        self.assertEqual(self.s3.get_object(Bucket=BUCKET, Key="once")["Body"].read(), b"first")

    def test_a_lake_comes_back_and_grows(self):
        here = self.lake("here", 1)
        said = self.steplake(here, "publish", self.place, "--part-bytes", "3000", "--read-back")
        self.assertIn("published version 1", said)
        there = self.folder / "comes-back"
        self.steplake(here, "fetch", self.place, "--into", str(there))
        self.assert_same(here, there)
        self.steplake(there, "verify")
        self.assertIn("nothing to publish", self.steplake(there, "publish", self.place))

        self.record(here, 2)
        self.assertIn("published version 2", self.steplake(here, "publish", self.place))
        self.steplake(there, "fetch", self.place)
        self.assert_same(here, there)
        self.steplake(there, "fetch", self.place, "--version", "1")
        self.assertEqual(len(self.episodes(there)), 6)
        listed = self.steplake(here, "fetch", self.place, "--list").splitlines()
        self.assertEqual([line.split()[0] for line in listed], ["version", "1", "2"])
        self.steplake(here, "merge", str(here), str(there), "--into", str(self.folder / "both"))
        self.assertEqual(self.episodes(self.folder / "both"), self.episodes(here))

        self.assertIn("forgot 1 version", self.steplake(here, "publish", self.place, "--gc", "--keep", "1"))
        code, said = self.fails(there, "fetch", self.place, "--version", "1")
        self.assertEqual(code, 3)
        self.assertIn("does not exist any more", said)
        code, said = self.fails(here, "publish", self.place, "--gc", "--older-than", "1")
        self.assertEqual(code, 2)
        self.assertIn("--older-than", said)

    def test_what_is_complete_is_sealed_and_published(self):
        here = self.lake("here", 1)
        generate = ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0", "--episodes", "2"]
        self.steplake(here, *generate, "--no-seal")
        # Another process records into the lake.
        with open(here / "writer.lock", "r+", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            code, _, err = self.end(self.start(here, "publish", self.place))
        self.assertEqual(code, 0, err)
        self.assertIn("2 complete episodes are not published yet", err)
        there = self.folder / "unfinished"
        self.steplake(there, "fetch", self.place)
        self.assertEqual(sorted(run["finished"] for run in self.rows(there, "runs")), [False, True])
        # The copy lacks these episodes, and plays them.
        said = self.steplake(there, *generate, "--resume")
        self.assertNotIn("nothing is left to do", said)
        self.assertEqual(self.episodes(there), self.episodes(here))
        self.assertIn("published version 2", self.steplake(here, "publish", self.place))
        newer = self.folder / "finished"
        self.steplake(newer, "fetch", self.place)
        self.assertIn("nothing is left to do", self.steplake(newer, *generate, "--resume"))
        self.assert_same(here, newer)
        fresh = self.folder / "fresh"
        self.steplake(fresh, *generate, "--no-seal")
        self.assertIn("published version 1", self.steplake(fresh, "publish", f"{self.place}-fresh"))

    def race(self, *more):
        """Two processes publish different lakes, and come to the conditional put at the same moment."""
        lakes = [self.lake("one", 1), self.lake("other", 2)]
        meeting = threading.Barrier(2)
        first = f"/{BUCKET}/{self._testMethodName}/manifests/{1:020}.json"

        def before(method, path):
            if method == "PUT" and path == first:
                meeting.wait(WAIT_SECONDS)

        self.server.before = before
        processes = [self.start(lake, "publish", self.place, *more) for lake in lakes]
        ended = [self.end(process) for process in processes]
        there = self.folder / f"{self._testMethodName}-there"
        self.steplake(there, "fetch", self.place)
        self.steplake(there, "verify")
        return lakes, ended, there

    def test_of_two_publishers_one_is_told_of_the_other(self):
        lakes, ended, there = self.race()
        self.assertEqual(sorted(code for code, _, _ in ended), [0, 7])
        winner = next(lake for lake, (code, _, _) in zip(lakes, ended) if code == 0)
        said = next(err for code, _, err in ended if code == 7)
        self.assertIn("version 1", said)
        self.assertIn("--merge", said)
        self.assert_same(winner, there)

    def test_two_publishers_that_merge_lose_nothing(self):
        lakes, ended, there = self.race("--merge")
        self.assertEqual([code for code, _, _ in ended], [0, 0], ended)
        both = sorted(self.episodes(lakes[0]) + self.episodes(lakes[1]))
        self.assertEqual(self.episodes(there), both)
        listed = self.steplake(there, "fetch", self.place, "--list").splitlines()
        self.assertEqual(len(listed), 3)

    def test_a_killed_publisher_leaves_nothing_that_counts(self):
        here = self.lake("here", 1)
        held, go_on = threading.Event(), threading.Event()
        self.addCleanup(go_on.set)

        def before(method, path):
            if method == "PUT" and "/lists/" in path and not held.is_set():
                held.set()
                go_on.wait(WAIT_SECONDS)

        self.server.before = before
        process = self.start(here, "publish", self.place)
        self.assertTrue(held.wait(WAIT_SECONDS))
        process.kill()
        process.communicate()
        go_on.set()
        sent = [key for key in self.keys() if "/segments/" in key]
        self.assertTrue(sent)
        self.assertFalse([key for key in self.keys() if "/manifests/" in key])
        code, said = self.fails(here, "fetch", self.place, "--into", str(self.folder / "nothing"))
        self.assertEqual(code, 6)
        self.assertIn("no lake is published", said)
        # What is there is not sent again.
        self.assertIn("of which 0 ", self.steplake(here, "publish", self.place))
        self.steplake(here, "fetch", self.place, "--into", str(self.folder / "after-kill"))
        self.assert_same(here, self.folder / "after-kill")

    def test_a_fetch_that_is_killed_leaves_the_older_lake(self):
        here = self.lake("here", 1)
        self.steplake(here, "publish", self.place)
        there = self.folder / "older"
        self.steplake(there, "fetch", self.place)
        before_it = self.rows(there, "steps")
        self.record(here, 2)
        self.steplake(here, "publish", self.place)
        held, go_on, seen = threading.Event(), threading.Event(), []
        self.addCleanup(go_on.set)

        def before(method, path):
            if method == "GET" and "/segments/" in path and not held.is_set():
                seen.append(path)
                if len(seen) == 3:
                    held.set()
                    go_on.wait(WAIT_SECONDS)

        self.server.before = before
        process = self.start(there, "fetch", self.place, "--parallel", "1")
        self.assertTrue(held.wait(WAIT_SECONDS))
        process.kill()
        process.communicate()
        go_on.set()
        self.assertEqual(self.rows(there, "steps"), before_it)
        self.steplake(there, "fetch", self.place)
        self.assert_same(here, there)

    def test_a_flipped_bit_is_told_of(self):
        here = self.lake("here", 1)
        self.steplake(here, "publish", self.place)
        key = next(key for key in self.keys() if "/segments/steps/" in key and "_delta_log" not in key)
        whole = self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        flipped = bytes([*whole[:200], whole[200] ^ 1, *whole[201:]])
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=flipped)
        there = self.folder / "flipped"
        code, said = self.fails(here, "fetch", self.place, "--into", str(there))
        self.assertEqual(code, 3)
        self.assertIn(Path(key).name, said)
        self.assertIn("damaged", said)
        self.assertFalse((there / "lake.json").exists())
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=whole)
        self.steplake(here, "fetch", self.place, "--into", str(there))
        self.assert_same(here, there)
        # One that is flipped here is found when it is looked for.
        [own] = (there / "data/steps").glob("*.parquet")
        own.write_bytes(bytes([*whole[:200], whole[200] ^ 1, *whole[201:]]))
        self.assertIn("of which 0 ", self.steplake(there, "fetch", self.place))
        self.assertIn("of which 1 ", self.steplake(there, "fetch", self.place, "--verify"))
        self.assert_same(here, there)

    def test_damage_there_is_mended_with_a_new_version(self):
        here = self.lake("here", 1)
        self.steplake(here, "publish", self.place)
        key = next(key for key in self.keys() if "/lists/" in key)
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=b"{")
        code, said = self.fails(here, "publish", self.place)
        self.assertEqual(code, 3)
        self.assertIn("--replace-damaged", said)
        self.assertIn("published version 2", self.steplake(here, "publish", self.place, "--replace-damaged"))
        manifest = next(key for key in self.keys() if key.endswith("2.json") and "/manifests/" in key)
        whole = self.s3.get_object(Bucket=BUCKET, Key=manifest)["Body"].read()
        self.s3.put_object(Bucket=BUCKET, Key=manifest, Body=b"")
        listed = self.steplake(here, "fetch", self.place, "--list").splitlines()
        self.assertEqual([line.split()[0] for line in listed], ["version", "1", "2"])
        self.assertIn("damaged", listed[2])
        self.s3.put_object(Bucket=BUCKET, Key=manifest, Body=whole)
        there = self.folder / "mended"
        self.steplake(there, "fetch", self.place)
        self.assert_same(here, there)
        key = next(key for key in self.keys() if "/segments/steps/" in key and "_delta_log" not in key)
        self.s3.delete_object(Bucket=BUCKET, Key=key)
        said = self.steplake(here, "publish", self.place, "--read-back")
        self.assertIn("published version 3", said)
        self.steplake(here, "verify")

    def test_what_does_not_answer_is_said_in_one_line(self):
        here = self.lake("here", 1)
        code, said = self.fails(here, "publish", "s3://no-such-bucket/lake")
        self.assertEqual((code, len(said.splitlines())), (5, 1), said)
        self.assertIn("s3://no-such-bucket/lake", said)
        arguments = ["publish", self.place, "--endpoint", "http://127.0.0.1:1", "--allow-http"]
        process = subprocess.run(
            [os.environ["STEPLAKE"], "--quiet", "--lake", str(here), *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, **CREDENTIALS},
            timeout=WAIT_SECONDS,
        )
        self.assertEqual((process.returncode, len(process.stderr.splitlines())), (5, 1), process.stderr)


if __name__ == "__main__":
    assert shutil.which(os.environ["STEPLAKE"])
    unittest.main()
