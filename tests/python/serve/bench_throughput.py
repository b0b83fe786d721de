"""A whole table over Flight on loopback, beside the same Parquet read by pyarrow: seconds, MB/s of Arrow, ratio."""

import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.flight as flight
from test_clients import statement

TABLES = ["steps", "state_transitions", "observations"]
REPEATS = 5


def timed(work):
    """The median of some runs, after one that is not counted, and what the last one gave."""
    seconds = []
    result = work()
    for _ in range(REPEATS):
        begun = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds), result


def main(lake):
    command = [os.environ["STEPLAKE"], "--lake", str(lake), "serve", "--listen", "127.0.0.1:0", "--no-health"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        client = flight.FlightClient(re.search(r"grpc://[^\s,]+", server.stderr.readline()).group(0))

        def served(table):
            descriptor = flight.FlightDescriptor.for_command(statement(f"SELECT * FROM {table}"))
            return client.do_get(client.get_flight_info(descriptor).endpoints[0].ticket).read_all()

        print(f"{'table':<20}{'rows':>12}{'MB':>8}{'Parquet s':>11}{'Flight s':>10}{'Flight MB/s':>13}{'ratio':>8}")
        for table in TABLES:
            direct, read = timed(lambda: ds.dataset(lake / "current" / table, format="parquet").to_table())
            over, got = timed(lambda: served(table))
            assert got.num_rows == read.num_rows, f"{table}: {got.num_rows} rows, {read.num_rows} in Parquet"
            size = got.nbytes / 1e6
            print(
                f"{table:<20}{got.num_rows:>12,}{size:>8,.0f}{direct:>11.3f}{over:>10.3f}"
                f"{size / over:>13,.0f}{over / direct:>8.2f}"
            )
    finally:
        server.terminate()
        server.wait(timeout=60)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
