-- The fastest measured state of every program, against its first state
-- topic: measurements
-- param benchmark: benchmark = % -- a LIKE pattern for the program
WITH compared AS (
  SELECT own.benchmark_uri, own.space, own.machine, own.compilation, own.state_id,
         sample_median(first.samples) AS first_s, sample_median(own.samples) AS best_s,
         first.samples AS before, own.samples AS after,
         -- The samples of a state are compared with those that were taken in turns with them.
         row_number() OVER (
           PARTITION BY own.benchmark_uri, own.space, own.machine, own.compilation, own.state_id
           ORDER BY own.measured_at_ms DESC, own.uid
         ) AS age
  FROM measurements AS own
  JOIN benchmarks AS b ON b.benchmark_uri = own.benchmark_uri
  JOIN measurements AS first
    ON first.benchmark_uri = own.benchmark_uri AND first.state_id = b.initial_state_id
   AND first.space = own.space AND first.machine = own.machine
   AND first.compilation = own.compilation AND first.measured_at_ms = own.measured_at_ms
  WHERE own.benchmark_uri LIKE $benchmark
), ranked AS (
  SELECT *, row_number() OVER (
           PARTITION BY benchmark_uri, space, machine, compilation
           ORDER BY best_s / first_s, state_id
         ) AS place
  FROM compared
  WHERE age = 1
)
SELECT benchmark_uri, space, machine, compilation, state_id, first_s, best_s,
       cardinality(after) AS samples,
       speedup(before, after) AS speedup,
       speedup_interval(before, after, 0.95)[1] AS lower,
       speedup_interval(before, after, 0.95)[2] AS upper
FROM ranked
WHERE place = 1
ORDER BY benchmark_uri, space, machine, compilation
