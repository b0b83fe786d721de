-- The best choices of every program, where states are given by choices, and the lowest cost
-- topic: sequences
-- param cost: cost = that of the first reward -- the observation space that is the cost
-- param benchmark: benchmark = % -- a LIKE pattern for the program's URI, without `#` and a state
-- For lakes of `gcc-v0` that observe the cost. Programs that begin at a state of another one, whose URI ends with
-- `#` and the state, count with that one. `first_cost` is what the program costs untouched, if that was recorded. If
-- nothing costs less, there are no choices.
WITH reached AS (
  SELECT DISTINCT state_id, program
  FROM (
    SELECT state_id,
           regexp_replace(CAST(benchmark_uri AS VARCHAR), concat('#', repeat('[0-9a-f]', 40), '\z'), '') AS program
    FROM steps WHERE state_id IS NOT NULL
  )
  WHERE program LIKE $benchmark
), ranked AS (
  SELECT r.program, r.state_id, o."{cost}" AS cost,
         count(*) OVER (PARTITION BY r.program) AS states,
         row_number() OVER (
           PARTITION BY r.program
           ORDER BY o."{cost}", r.state_id IS DISTINCT FROM b.initial_state_id, r.state_id
         ) AS place
  FROM reached AS r
  JOIN observations AS o ON o.state_id = r.state_id
  LEFT JOIN benchmarks AS b ON b.benchmark_uri = r.program
  WHERE o."{cost}" IS NOT NULL
), best AS (
  SELECT program, state_id, cost, states, split_part(ir(state_id), chr(10), 1) AS line
  FROM ranked
  WHERE place = 1
)
SELECT r.program, f."{cost}" AS first_cost, r.cost AS best_cost, r.states,
       CASE WHEN starts_with(r.line, '// gcc-v0 state ') THEN split_part(r.line, ': ', 2) ELSE '' END
         AS choices,
       r.state_id
FROM best AS r
LEFT JOIN benchmarks AS b ON b.benchmark_uri = r.program
LEFT JOIN observations AS f ON f.state_id = b.initial_state_id
ORDER BY r.program
