-- Failures of the compiler by action and kind
-- topic: failures
-- param tries: integer = 1 -- leave out actions tried less often
WITH tried AS (
  SELECT action, count(*) AS tries
  FROM steps
  WHERE action IS NOT NULL
  GROUP BY action
), failed AS (
  SELECT s.action, e.outcome AS kind, count(*) AS failures,
         count(DISTINCT s.benchmark_uri) AS benchmarks,
         first_value(e.detail ORDER BY s.episode_id) AS first_detail
  FROM steps AS s
  JOIN episodes AS e ON e.episode_id = s.episode_id
  WHERE s.state_id IS NULL AND s.action IS NOT NULL
  GROUP BY s.action, e.outcome
)
SELECT f.action, action_name(f.action) AS name, f.kind, f.failures, t.tries,
       CAST(f.failures AS DOUBLE) / t.tries AS rate, f.benchmarks, f.first_detail
FROM failed AS f
JOIN tried AS t ON t.action = f.action
WHERE t.tries >= $tries
ORDER BY f.failures DESC, f.action, f.kind
