-- How many steps it takes at least from one state to another.
WITH RECURSIVE reached(state_key, steps) USING KEY (state_key) AS (
  SELECT CAST({root} AS BIGINT), 0
  UNION
  SELECT DISTINCT t.next_state_key, r.steps + 1
  FROM reached AS r
  JOIN state_transitions AS t ON t.state_key = r.state_key
  LEFT JOIN recurring.reached AS known ON known.state_key = t.next_state_key
  WHERE known.state_key IS NULL
    AND NOT EXISTS (SELECT 1 FROM recurring.reached AS found WHERE found.state_key = {state})
)
SELECT max(steps) AS steps
FROM reached
WHERE state_key = {state}
