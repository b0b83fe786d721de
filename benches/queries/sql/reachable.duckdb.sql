-- How many states can be reached within four actions.
WITH RECURSIVE reached(state_key, depth) USING KEY (state_key) AS (
  SELECT CAST({root} AS BIGINT), 0
  UNION
  SELECT DISTINCT t.next_state_key, r.depth + 1
  FROM reached AS r
  JOIN state_transitions AS t ON t.state_key = r.state_key
  LEFT JOIN recurring.reached AS known ON known.state_key = t.next_state_key
  WHERE r.depth < 4 AND known.state_key IS NULL
)
SELECT depth, count(*) AS states
FROM reached
GROUP BY depth
ORDER BY depth
