"""Does in SQL what `steplake dedup` does, with DuckDB over a lake's Parquet.

Usage: in_duckdb.py LAKE SQL_FILE OUTPUT MEMORY THREADS. Prints seconds, CPU seconds, peak MiB and rows.
"""

import resource
import sys
import time

import duckdb

lake, sql_file, output, memory, threads = sys.argv[1:]
with open(sql_file, encoding="utf-8") as file:
    sql = file.read()
began = time.monotonic()
connection = duckdb.connect(config={"memory_limit": memory, "threads": int(threads), "temp_directory": output + ".tmp"})
connection.execute("SET preserve_insertion_order = false")
for table in ("steps", "episodes"):
    connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{lake}/current/{table}/*.parquet')")
connection.execute(f"COPY ({sql}) TO '{output}' (FORMAT parquet, COMPRESSION zstd)")
seconds = time.monotonic() - began
usage = resource.getrusage(resource.RUSAGE_SELF)
# The resource usage would include the memory of the process that started this one.
with open("/proc/self/status", encoding="utf-8") as status:
    peak_kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
rows = connection.execute(f"SELECT count(*) FROM '{output}'").fetchone()[0]
print(seconds, usage.ru_utime + usage.ru_stime, peak_kib // 1024, rows)
