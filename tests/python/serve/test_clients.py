"""Arrow clients of others ask a served lake, and get what `steplake sql` says."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

import adbc_driver_flightsql
import adbc_driver_manager
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.flight as flight
from adbc_driver_flightsql import DatabaseOptions, dbapi

TOKEN = "a-token-of-the-tests"
STEPS = "SELECT * FROM steps ORDER BY episode_id, step_index"
QUESTIONS = [
    STEPS,
    "SELECT * FROM state_transitions ORDER BY state_key, state_id, action",
    "SELECT * FROM observations ORDER BY state_key, state_id",
    "SELECT * FROM actions ORDER BY action",
    "SELECT action_name(action) AS name, count(*) AS tries FROM steps WHERE action IS NOT NULL GROUP BY 1 ORDER BY 1",
    "SELECT episode_id, step_index, actions FROM steps_with_actions ORDER BY 1, 2",
]


def steplake(*arguments, lake):
    command = [os.environ["STEPLAKE"], "--lake", str(lake), "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stderr}"
    return done.stdout


def plain(value):
    """A value as `steplake sql --format json` writes it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="steplake-flight-")
        cls.addClassCleanup(folder.cleanup)
        cls.lake = Path(folder.name) / "lake"
        steplake(
            *["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..2", "--episodes", "60"],
            *["--episode-length", "20", "--jobs", "2"],
            lake=cls.lake,
        )
        steplake("seal", lake=cls.lake)
        steplake("dedup", lake=cls.lake)
        token = Path(folder.name) / "token"
        token.write_text(TOKEN)
        # As a person types it: `steplake serve` becomes the program beside it.
        command = [os.environ["STEPLAKE"], "--lake", str(cls.lake), "serve", "--token-file", str(token)]
        command += ["--listen", "127.0.0.1:0", "--health", "127.0.0.1:0"]
        cls.server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.stop)
        said = cls.server.stderr.readline()
        cls.address = re.search(r"grpc://([^ ,]+)", said).group(1)
        cls.metrics = re.search(r"http://[^ ,]+/", said).group(0) + "metrics"
        cls.uri = f"grpc://{cls.address}"

    @classmethod
    def stop(cls):
        cls.server.send_signal(signal.SIGTERM)
        code = cls.server.wait(timeout=60)
        cls.server.stderr.close()
        assert code == 0, f"the server exited with {code}"

    def connect(self):
        options = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {TOKEN}"}
        connection = dbapi.connect(self.uri, db_kwargs=options, autocommit=True)
        self.addCleanup(connection.close)
        return connection

    def cursor(self):
        cursor = self.connect().cursor()
        self.addCleanup(cursor.close)
        return cursor

    def metric(self, name):
        with urllib.request.urlopen(self.metrics) as answer:
            return int(re.search(rf"^steplake_{name} (\d+)$", answer.read().decode(), re.MULTILINE).group(1))

    def said(self, sql):
        return json.loads(steplake("sql", "--format", "json", sql, lake=self.lake))

    def assert_rows(self, table, sql):
        """JSON leaves nulls out or writes them, and knows no NaN: compare what is there."""
        rows = [{k: plain(v) for k, v in row.items() if v is not None} for row in table.to_pylist()]
        said = [{k: v for k, v in row.items() if v is not None} for row in self.said(sql)]
        self.assertGreater(len(said), 0)
        self.assertEqual(rows, said)

    def test_adbc_gets_what_the_command_line_says(self):
        for sql in QUESTIONS:
            with self.subTest(sql=sql):
                cursor = self.cursor()
                cursor.execute(sql)
                self.assert_rows(cursor.fetch_arrow_table(), sql)

    def test_adbc_binds_parameters(self):
        state = self.said("SELECT hex(state_id) AS s FROM observations ORDER BY 1 LIMIT 1")[0]["s"]
        sql = "SELECT count(*) AS n FROM steps WHERE state_id = {}"
        wanted = [(self.said(sql.format(f"'{state}'"))[0]["n"],)]
        self.assertGreater(wanted[0][0], 0)
        for value in [state, bytes.fromhex(state)]:
            cursor = self.cursor()
            cursor.execute(sql.format("?"), [value])
            self.assertEqual(cursor.fetchall(), wanted)
        cursor = self.cursor()
        cursor.execute("SELECT count(*) FROM steps WHERE step_index < ? AND action = ?", [5, 1])
        wanted = self.said("SELECT count(*) AS n FROM steps WHERE step_index < 5 AND action = 1")[0]["n"]
        self.assertEqual(cursor.fetchall(), [(wanted,)])

    def test_adbc_knows_the_tables(self):
        connection = self.connect()
        self.assertEqual(connection.adbc_get_table_types(), ["TABLE", "VIEW"])
        listed = connection.adbc_get_objects(depth="all", db_schema_filter="public").read_all().to_pylist()
        tables = {
            table["table_name"]: [column["column_name"] for column in table["table_columns"]]
            for catalog in listed
            for schema in catalog["catalog_db_schemas"]
            for table in schema["db_schema_tables"]
        }
        self.assertEqual(tables["steps"], list(self.said("SELECT * FROM steps WHERE step_index = 1 LIMIT 1")[0]))
        self.assertEqual(connection.adbc_get_info()["vendor_name"], "steplake")
        schema = connection.adbc_get_table_schema("steps", db_schema_filter="public")
        self.assertEqual(schema.field("state_id").type, pa.binary(20))
        cursor = self.cursor()
        self.assertEqual(cursor.adbc_execute_schema("SELECT state_id FROM steps").names, ["state_id"])

    def test_adbc_is_told_what_is_wrong(self):
        cursor = self.cursor()
        with self.assertRaisesRegex(adbc_driver_manager.ProgrammingError, "there is no column `a`"):
            cursor.execute("SELECT a FROM steps")
        with self.assertRaisesRegex(adbc_driver_manager.Error, "DELETE is refused: a query only reads"):
            cursor.execute("DELETE FROM steps")
        with self.assertRaisesRegex(adbc_driver_manager.Error, "refused"):
            cursor.adbc_ingest("mine", pa.table({"a": [1]}), mode="create")
        cursor.execute("SELECT 1")
        self.assertEqual(cursor.fetchall(), [(1,)])

    def test_adbc_cancels(self):
        left = self.metric("queries_left_total")
        cursor = self.cursor()
        cursor.execute("SELECT value FROM generate_series(1, 900000000000)")
        self.assertEqual(len(cursor.fetchmany(10)), 10)
        self.assertEqual(self.metric("queries_running"), 1)
        cursor.adbc_cancel()
        cursor.close()
        while self.metric("queries_running"):
            time.sleep(0.02)
        self.assertEqual(self.metric("queries_left_total"), left + 1)
        self.assertEqual(self.cursor().execute("SELECT 1").fetchall(), [(1,)])

    def test_pyarrow_flight_alone(self):
        """No driver: the messages of Flight SQL made by hand, as in docs/SERVING.md."""
        client = flight.FlightClient(self.uri)
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
        info = client.get_flight_info(flight.FlightDescriptor.for_command(statement(STEPS)), options)
        parts = [client.do_get(endpoint.ticket, options).read_all() for endpoint in info.endpoints]
        table = pa.concat_tables(parts)
        self.assertEqual(table.schema, info.schema)
        self.assert_rows(table, STEPS)
        with self.assertRaises(flight.FlightUnauthenticatedError):
            client.get_flight_info(flight.FlightDescriptor.for_command(statement(STEPS)))

    def test_adbc_hands_on_what_derived_tables_do_not_count(self):
        def metadata(sql):
            cursor = self.cursor()
            cursor.execute(sql)
            return cursor.fetch_arrow_table().schema.metadata or {}

        derived = "SELECT count(*) FROM state_transitions"
        self.assertEqual(metadata(derived), {})
        run = ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..2", "--episodes", "3"]
        steplake(*run, "--seed", "2", lake=self.lake)
        missing = str(self.said("SELECT uncounted_steps AS n FROM lake")[0]["n"])
        found = metadata(derived)
        self.assertEqual(found[b"steplake.uncounted_steps"].decode(), missing)
        self.assertIn(f"{missing} are newer than the last dedup", found[b"steplake.warning"].decode())
        self.assertEqual(metadata(STEPS), {})
        steplake("dedup", lake=self.lake)
        self.assertEqual(metadata(derived), {})

    def test_polars(self):
        frame = pl.read_database(STEPS, self.connect())
        self.assertEqual(frame.schema["state_id"], pl.Binary)
        self.assert_rows(frame.to_arrow(), STEPS)
        # A list and a vector too.
        for sql in QUESTIONS:
            self.assertEqual(len(pl.read_database(sql, self.connect())), len(self.said(sql)))

    def test_pandas(self):
        frame = pd.read_sql(STEPS, self.connect())
        said = self.said(STEPS)
        self.assertEqual(len(frame), len(said))
        self.assertEqual(frame["step_index"].tolist(), [row["step_index"] for row in said])
        states = [state.hex() for state in frame["state_id"] if isinstance(state, bytes)]
        self.assertEqual(states, [row["state_id"] for row in said if row.get("state_id")])

    def test_duckdb_reads_what_adbc_fetches(self):
        cursor = self.cursor()
        cursor.execute(STEPS)
        steps = cursor.fetch_arrow_table()
        found = duckdb.sql("SELECT count(*), count(DISTINCT state_id), max(step_index) FROM steps").fetchall()[0]
        wanted = "SELECT count(*) AS a, count(DISTINCT state_id) AS b, max(step_index) AS c FROM steps"
        self.assertEqual(list(found), list(self.said(wanted)[0].values()))
        self.assertEqual(steps.schema.field("state_id").type, pa.binary(20))

    def test_a_reader_takes_batch_by_batch(self):
        cursor = self.cursor()
        cursor.execute("SELECT value FROM generate_series(1, 1000000)")
        reader = cursor.fetch_record_batch()
        sizes = [batch.num_rows for batch in reader]
        self.assertEqual(sum(sizes), 1_000_000)
        self.assertGreater(len(sizes), 10)


def statement(sql):
    """CommandStatementQuery in an Any, in protobuf's own bytes."""

    def field(number, value):
        return bytes([number << 3 | 2]) + length(len(value)) + value

    def length(size):
        low = bytes([size & 0x7F | (0x80 if size > 0x7F else 0)])
        return low + (length(size >> 7) if size > 0x7F else b"")

    name = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    return field(1, name) + field(2, field(1, sql.encode()))


if __name__ == "__main__":
    unittest.main()
