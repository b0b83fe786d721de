-- How many states of every program share an output of the compiler
-- topic: states
-- needs asm_hash
-- param benchmark: benchmark = % -- a LIKE pattern for the program's URI, without `#` and a state
-- For lakes of `gcc-v0` that observe `asm_hash`, which names the output. States `without_output` were not observed, or
-- the compiler failed there. `shared_by` is how many states have the most frequent output.
WITH reached AS (
  SELECT DISTINCT state_id, program
  FROM (
    SELECT state_id,
           regexp_replace(CAST(benchmark_uri AS VARCHAR), concat('#', repeat('[0-9a-f]', 40), '\z'), '') AS program
    FROM steps WHERE state_id IS NOT NULL
  )
  WHERE program LIKE $benchmark
), outputs AS (
  SELECT r.program, o.asm_hash AS output, count(*) AS states
  FROM reached AS r
  JOIN observations AS o ON o.state_id = r.state_id
  GROUP BY r.program, o.asm_hash
)
SELECT program, sum(states) AS states,
       sum(CASE WHEN output IS NULL THEN states ELSE 0 END) AS without_output,
       count(output) AS outputs,
       CAST(sum(CASE WHEN output IS NOT NULL THEN states END) AS DOUBLE) / count(output)
         AS states_an_output,
       max(CASE WHEN output IS NOT NULL THEN states END) AS shared_by
FROM outputs
GROUP BY program
ORDER BY program
