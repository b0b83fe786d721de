-- Episodes, and the shortest sequence to the state in which each of them ended
-- topic: sequences
-- param benchmark: text = % -- a LIKE pattern for the benchmark's URI
WITH ends AS (
  SELECT CAST(benchmark_uri AS VARCHAR) AS benchmark_uri, episode_id, max(step_index) AS steps,
         last_value(state_id ORDER BY step_index) AS state_id
  FROM steps
  WHERE state_id IS NOT NULL AND benchmark_uri LIKE $benchmark
  GROUP BY benchmark_uri, episode_id
)
SELECT e.benchmark_uri, e.episode_id, e.steps, s.steps AS shortest, e.steps - s.steps AS saved,
       commandline(s.actions) AS commandline, s.actions, e.state_id
FROM ends AS e
JOIN sequences() AS s ON s.benchmark_uri = e.benchmark_uri AND s.state_id = e.state_id
ORDER BY saved DESC, e.episode_id
