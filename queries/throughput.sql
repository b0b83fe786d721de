-- The fastest measured schedule of every program, in operations and in bytes a second, small programs first
-- topic: measurements
-- needs Operations
-- param benchmark: benchmark = % -- a LIKE pattern for the program
-- For lakes of `loops-v0` with measurements. A program's bytes are those of its inputs and outputs, each once.
-- Of a state that was measured several times, the last measurement counts.
WITH timed AS (
  SELECT benchmark_uri, machine, compilation, state_id, cardinality(samples) AS samples,
         sample_median(samples) AS seconds,
         row_number() OVER (
           PARTITION BY benchmark_uri, machine, compilation, state_id
           ORDER BY measured_at_ms DESC, uid
         ) AS age
  FROM measurements
  WHERE space = 'Runtime' AND benchmark_uri LIKE $benchmark
), ranked AS (
  SELECT *, row_number() OVER (
           PARTITION BY benchmark_uri, machine, compilation ORDER BY seconds, state_id
         ) AS place,
         count(*) OVER (PARTITION BY benchmark_uri, machine, compilation) AS measured
  FROM timed
  WHERE age = 1
)
SELECT r.benchmark_uri, b."Operations" AS operations, b."CompulsoryBytes" AS bytes, r.measured,
       r.seconds, b."Operations" / r.seconds / 1e9 AS gflops,
       b."CompulsoryBytes" / r.seconds / 1e9 AS gigabytes_a_second,
       r.samples, r.machine, r.compilation, r.state_id
FROM ranked AS r
JOIN benchmarks AS b ON b.benchmark_uri = r.benchmark_uri
WHERE r.place = 1
ORDER BY operations, r.benchmark_uri, r.machine, r.compilation
