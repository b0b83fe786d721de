-- Episodes, and the shortest sequence to the state in which each of them ended
-- topic: sequences
-- param benchmark: text = % -- a LIKE pattern for the benchmark's URI
-- The transition graph knows the most frequent result of an action alone, none of a retracted action, and no
-- step that is newer than the last dedup. Where it has no way, or a longer one, the episode's own actions stand.
WITH ends AS (
  SELECT CAST(benchmark_uri AS VARCHAR) AS benchmark_uri, episode_id, max(step_index) AS steps,
         last_value(state_id ORDER BY step_index) AS state_id,
         action_list(step_index, action) AS played
  FROM steps
  WHERE state_id IS NOT NULL AND benchmark_uri LIKE $benchmark
  GROUP BY benchmark_uri, episode_id
), found AS (
  SELECT e.benchmark_uri, e.episode_id, e.steps, e.state_id,
         CASE WHEN s.steps <= e.steps THEN s.steps ELSE e.steps END AS shortest,
         CASE WHEN s.steps <= e.steps THEN s.actions ELSE e.played END AS actions
  FROM ends AS e
  LEFT JOIN sequences() AS s ON s.benchmark_uri = e.benchmark_uri AND s.state_id = e.state_id
)
SELECT benchmark_uri, episode_id, steps, shortest, steps - shortest AS saved,
       commandline(actions) AS commandline, actions, state_id
FROM found
ORDER BY saved DESC, episode_id
