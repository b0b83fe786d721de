"""Readers that share no code with steplake read the Delta tables of a published lake: on S3, and in a folder."""

import json
import os
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import boto3
import deltalake
import duckdb
import duckdb_extension_delta
import duckdb_extension_httpfs
import polars
from test_remote import BUCKET, CREDENTIALS, Server

# Without `observations`, whose vectors not all of these readers can read.
TABLES = ["benchmarks", "episodes", "steps", "ir", "state_transitions", "conflicts", "failures"]
DAY_SECONDS = 24 * 60 * 60


def steplake(lake, *arguments):
    command = [os.environ["STEPLAKE"], "--quiet", "--lake", str(lake), *arguments]
    environment = {**os.environ, **CREDENTIALS}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stderr}"
    return done.stdout


def rows(lake, table):
    answer = steplake(lake, "sql", f"SELECT count(*) AS rows FROM {table}", "--format", "json")
    return json.loads(answer)[0]["rows"]


def record(lake, seed):
    toy = ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..9", "--episodes", "9"]
    steplake(lake, *toy, "--seed", str(seed), "--jobs", "1")


class Readers:
    """Counts the rows of a table: of its newest version, or by number."""

    def __init__(self, address, endpoint=None):
        self.address, self.options = address, {}
        self.database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        for extension in (duckdb_extension_delta, duckdb_extension_httpfs):
            file = next(Path(extension.__file__).parent.rglob("*.duckdb_extension"))
            self.database.execute(f"LOAD '{file}'")
        if endpoint:
            self.options = {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
            self.database.execute(
                f"""CREATE SECRET (TYPE s3, KEY_ID '{CREDENTIALS["AWS_ACCESS_KEY_ID"]}',
                    SECRET '{CREDENTIALS["AWS_SECRET_ACCESS_KEY"]}', REGION '{CREDENTIALS["AWS_REGION"]}',
                    ENDPOINT '{endpoint.removeprefix("http://")}', URL_STYLE 'path', USE_SSL false)"""
            )

    def all(self):
        return {"deltalake": self.deltalake, "polars": self.polars, "duckdb": self.duckdb}

    def folder(self, table):
        return f"{self.address}/segments/{table}"

    def deltalake(self, table, version=None):
        found = deltalake.DeltaTable(self.folder(table), version=version, storage_options=self.options)
        return found.to_pyarrow_table().num_rows

    def polars(self, table, version=None):
        found = polars.scan_delta(self.folder(table), version=version, storage_options=self.options or None)
        return found.collect().height

    def duckdb(self, table, version=None):
        at = "" if version is None else f", version => {version}"
        sql = f"SELECT count(*) FROM (SELECT * FROM delta_scan('{self.folder(table)}'{at}))"
        return self.database.execute(sql).fetchone()[0]


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="steplake-tables-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.lake = self.folder / "lake"

    def publish(self, address, versions, *more):
        """Publishes so many versions; returns the rows of each."""
        counts = {}
        for version in versions:
            record(self.lake, version)
            steplake(self.lake, "publish", address, *more)
            counts[version] = {table: rows(self.lake, table) for table in TABLES}
        return counts

    def assert_read(self, readers, counts):
        newest = max(counts)
        for name, read in readers.all().items():
            for table in TABLES:
                with self.subTest(reader=name, table=table):
                    self.assertEqual(read(table), counts[newest][table])
                    for version, expected in counts.items():
                        self.assertEqual(read(table, version), expected[table], version)

    def test_tables_on_s3_are_read_in_place(self):
        server = Server()
        self.addCleanup(server.stop)
        s3 = boto3.client(
            "s3",
            endpoint_url=server.endpoint,
            region_name=CREDENTIALS["AWS_REGION"],
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        # All servers of this process share their buckets.
        s3.create_bucket(Bucket=BUCKET)
        address = f"s3://{BUCKET}/tables"
        counts = self.publish(address, [1, 2], "--endpoint", server.endpoint, "--allow-http")
        self.assertLess(counts[1]["steps"], counts[2]["steps"])
        self.assert_read(Readers(address, server.endpoint), counts)

    def test_tables_in_a_folder_outlive_forgotten_versions(self):
        published = self.folder / "published"
        address = f"file://{published}"
        counts = self.publish(address, [1, 2, 3])
        readers = Readers(str(published))
        self.assert_read(readers, counts)
        old = time.time() - 3 * DAY_SECONDS
        for file in published.rglob("*.*"):
            os.utime(file, (old, old))
        said = steplake(self.lake, "publish", address, "--gc", "--keep", "2", "--older-than", "2")
        self.assertIn("forgot 1 version", said)
        # The collection took number 4.
        kept = {2: counts[2], 3: counts[3], 4: counts[3]}
        self.assert_read(readers, kept)
        for name, read in readers.all().items():
            with self.subTest(reader=name), self.assertRaises(Exception):
                read("steps", 1)
        kept |= self.publish(address, [5])
        self.assert_read(readers, kept)
        # The logs are written anew once they are deleted.
        for log in published.glob("segments/*/_delta_log/*"):
            log.unlink()
        self.assertIn("nothing to publish", steplake(self.lake, "publish", address))
        self.assert_read(readers, kept)


if __name__ == "__main__":
    unittest.main()
