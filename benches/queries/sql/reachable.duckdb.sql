-- How many states can be reached in at most four steps, by the steps that it takes.
WITH RECURSIVE reached(state_key, steps) USING KEY (state_key) AS (
  SELECT CAST({root} AS BIGINT), 0
  UNION
  SELECT DISTINCT t.next_state_key, r.steps + 1
  FROM reached AS r
  JOIN state_transitions AS t ON t.state_key = r.state_key
  LEFT JOIN recurring.reached AS known ON known.state_key = t.next_state_key
  WHERE r.steps < 4 AND known.state_key IS NULL
)
SELECT steps, count(*) AS states
FROM reached
GROUP BY steps
ORDER BY steps
