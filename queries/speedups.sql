-- The fastest measured state of every program, against its first state
-- topic: measurements
-- param benchmark: benchmark = % -- a LIKE pattern for the program
WITH taken AS (
  SELECT benchmark_uri, space, machine, compilation, state_id, unnest(samples) AS sample
  FROM measurements
), of_states AS (
  SELECT benchmark_uri, space, machine, compilation, state_id, array_agg(sample) AS samples,
         sample_median(array_agg(sample)) AS seconds
  FROM taken
  WHERE benchmark_uri LIKE $benchmark
  GROUP BY benchmark_uri, space, machine, compilation, state_id
), ranked AS (
  SELECT *, row_number() OVER (
           PARTITION BY benchmark_uri, space, machine, compilation ORDER BY seconds, state_id
         ) AS place
  FROM of_states
)
SELECT first.benchmark_uri, first.space, first.machine, first.compilation, best.state_id,
       first.seconds AS first_s, best.seconds AS best_s,
       cardinality(best.samples) AS samples,
       speedup(first.samples, best.samples) AS speedup,
       speedup_interval(first.samples, best.samples, 0.95)[1] AS lower,
       speedup_interval(first.samples, best.samples, 0.95)[2] AS upper
FROM ranked AS best
JOIN of_states AS first
  ON first.benchmark_uri = best.benchmark_uri AND first.space = best.space
 AND first.machine = best.machine AND first.compilation = best.compilation
JOIN benchmarks AS b
  ON b.benchmark_uri = first.benchmark_uri AND b.initial_state_id = first.state_id
WHERE best.place = 1
ORDER BY first.benchmark_uri, first.space, first.machine, first.compilation
