-- The recorded data of every benchmark: episodes, states, transitions, actions tried
-- topic: states
-- Failed starts are episodes, too. Retracted actions count neither as actions nor as tried.
WITH space AS (
  SELECT action
  FROM actions
  WHERE name NOT IN (SELECT value FROM retractions WHERE kind = 'action')
), played AS (
  SELECT CAST(benchmark_uri AS VARCHAR) AS benchmark_uri, episode_id, step_index, action, state_id
  FROM steps
  UNION ALL
  SELECT CAST(benchmark_uri AS VARCHAR), episode_id, NULL, NULL, NULL
  FROM episodes
  WHERE steps = 0 AND outcome NOT IN ('complete', 'ended')
), seen AS (
  SELECT p.benchmark_uri, count(DISTINCT p.episode_id) AS episodes, count(p.action) AS steps,
         count(DISTINCT p.state_id) AS states, count(DISTINCT s.action) AS actions_tried,
         max(p.step_index) AS deepest_step
  FROM played AS p
  LEFT JOIN space AS s ON s.action = p.action
  GROUP BY p.benchmark_uri
), known AS (
  SELECT benchmark_uri, count(*) AS transitions
  FROM (SELECT DISTINCT benchmark_uri, state_id, action
        FROM transitions_taken
        WHERE state_id IS NOT NULL AND next_state_id IS NOT NULL
          AND action IN (SELECT action FROM space)) AS taken
  GROUP BY benchmark_uri
)
SELECT s.benchmark_uri, s.episodes, s.steps, s.states, coalesce(k.transitions, 0) AS transitions,
       s.actions_tried, (SELECT count(*) FROM space) AS actions, s.deepest_step
FROM seen AS s
LEFT JOIN known AS k ON k.benchmark_uri = s.benchmark_uri
ORDER BY s.benchmark_uri
