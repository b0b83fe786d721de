"""Runs DuckDB over a lake's Parquet for the bench: one query per input line, one answer per output line.

Usage: in_duckdb.py LAKE MEMORY THREADS. An answer is the seconds until all rows existed as Arrow, the CPU
seconds, the number of rows, and the sum of all their numbers; or `failed`.
"""

import sys
import time

import duckdb
import pyarrow
import pyarrow.compute

lake, memory, threads = sys.argv[1:]
connection = duckdb.connect(config={"memory_limit": memory, "threads": int(threads)})
for table in ("episodes", "steps", "state_transitions"):
    connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{lake}/current/{table}/*.parquet')")


def total(column: pyarrow.ChunkedArray) -> float:
    kind = column.type
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_decimal(kind):
        return float(pyarrow.compute.sum(column.cast("double", safe=False)).as_py() or 0)
    return 0.0


for line in sys.stdin:
    try:
        began, cpu_before = time.perf_counter(), time.process_time()
        table = connection.sql(line).to_arrow_table()
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_before
        print(seconds, cpu_seconds, table.num_rows, sum(total(column) for column in table.columns), flush=True)
    except duckdb.Error as error:
        print(error, file=sys.stderr)
        print("failed", flush=True)
