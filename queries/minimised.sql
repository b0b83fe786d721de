-- Episodes that begin at the program, and the shortest sequence to the state in which each ended
-- topic: sequences
-- param benchmark: benchmark = % -- a LIKE pattern for the benchmark's URI
-- The transition graph has only the most frequent result of an action, no retracted action, and no
-- step newer than the last dedup. If its path is longer, or missing, the row has the episode's own actions.
WITH ends AS (
  SELECT CAST(benchmark_uri AS VARCHAR) AS benchmark_uri, episode_id, max(step_index) AS steps,
         last_value(state_id ORDER BY step_index) AS state_id,
         action_list(step_index, action) AS played
  FROM steps
  WHERE state_id IS NOT NULL AND benchmark_uri LIKE $benchmark
    AND episode_id IN (SELECT episode_id FROM program_episodes)
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
