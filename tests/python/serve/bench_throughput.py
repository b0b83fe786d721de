"""A whole table over Flight on loopback, beside the same Parquet read by pyarrow, and beside pyarrow's own server.

pyarrow's server reads the same Parquet, and sends what it read: the simplest server there is. All have the same cores.
"""

import os
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.flight as flight
from adbc_driver_flightsql import dbapi
from test_clients import statement

TABLES = ["steps", "state_transitions", "observations"]
REPEATS = 5


def parquet(lake, table):
    return ds.dataset(lake / "current" / table, format="parquet")


class ParquetServer(flight.FlightServerBase):
    """pyarrow's server: a ticket is the name of a table."""

    def __init__(self, lake):
        super().__init__("grpc://127.0.0.1:0")
        self.lake = lake

    def do_get(self, context, ticket):
        found = parquet(self.lake, ticket.ticket.decode())
        return flight.RecordBatchStream(found.scanner().to_reader())


def timed(work):
    """The median of some runs, after one that is not counted, and what the last one gave."""
    seconds = []
    result = work()
    for _ in range(REPEATS):
        begun = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds), result


def serving(command):
    """A server, and its address, which it says first."""
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    return server, re.search(r"grpc://[^\s,]+", server.stderr.readline()).group(0)


def over_pyarrow(address, table):
    """All parts at once, each over a connection of its own."""
    descriptor = flight.FlightDescriptor.for_command(statement(f"SELECT * FROM {table}"))
    endpoints = flight.FlightClient(address).get_flight_info(descriptor).endpoints
    with ThreadPoolExecutor(len(endpoints)) as threads:
        part = lambda endpoint: flight.FlightClient(address).do_get(endpoint.ticket).read_all()
        return pa.concat_tables(threads.map(part, endpoints))


def over_adbc(address, table):
    with dbapi.connect(address, autocommit=True) as lake, lake.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        return cursor.fetch_arrow_table()


def main(lake):
    server, address = serving(
        [os.environ["STEPLAKE"], "--lake", str(lake), "serve", "--listen", "127.0.0.1:0", "--no-health"]
    )
    plain, plain_address = serving([sys.executable, __file__, str(lake), "serve"])
    try:
        columns = ["Parquet", "pyarrow", "ADBC", "pyarrow's server"]
        print(f"{'table':<20}{'rows':>12}{'MB':>8}" + "".join(f"{name + ', s':>21}{'':>7}" for name in columns))
        for table in TABLES:
            ways = [
                lambda: parquet(lake, table).to_table(),
                lambda: over_pyarrow(address, table),
                lambda: over_adbc(address, table),
                lambda: flight.FlightClient(plain_address).do_get(flight.Ticket(table)).read_all(),
            ]
            found = [timed(way) for way in ways]
            read = found[0][1]
            for _, got in found:
                assert got.num_rows == read.num_rows, f"{table}: {got.num_rows} rows, {read.num_rows} in Parquet"
            seconds = [seconds for seconds, _ in found]
            shown = "".join(f"{own:>20.3f} {own / seconds[0]:>6.2f}x" for own in seconds)
            print(f"{table:<20}{read.num_rows:>12,}{found[1][1].nbytes / 1e6:>8,.0f}{shown}")
    finally:
        for process in (server, plain):
            process.terminate()
            process.wait(timeout=60)


if __name__ == "__main__":
    if sys.argv[2:] == ["serve"]:
        own = ParquetServer(Path(sys.argv[1]))
        print(f"grpc://127.0.0.1:{own.port}", file=sys.stderr, flush=True)
        own.serve()
    else:
        main(Path(sys.argv[1]))
