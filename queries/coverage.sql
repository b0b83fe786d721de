-- What is known of every benchmark: episodes, states, transitions, actions tried
-- topic: states
WITH seen AS (
  SELECT benchmark_uri, count(DISTINCT episode_id) AS episodes, count(action) AS steps,
         count(DISTINCT state_id) AS states, count(DISTINCT action) AS actions_tried,
         max(step_index) AS deepest_step
  FROM steps
  GROUP BY benchmark_uri
), known AS (
  SELECT benchmark_uri, count(*) AS transitions
  FROM (SELECT DISTINCT benchmark_uri, state_id, action
        FROM transitions_taken
        WHERE state_id IS NOT NULL AND next_state_id IS NOT NULL) AS taken
  GROUP BY benchmark_uri
)
SELECT s.benchmark_uri, s.episodes, s.steps, s.states, coalesce(k.transitions, 0) AS transitions,
       s.actions_tried, (SELECT count(*) FROM actions) AS actions, s.deepest_step
FROM seen AS s
LEFT JOIN known AS k ON k.benchmark_uri = s.benchmark_uri
ORDER BY s.benchmark_uri
