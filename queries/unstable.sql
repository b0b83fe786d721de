-- Actions that led from one state to different next states
-- topic: failures
-- param tries: integer = 1 -- leave out actions tried less often
WITH pairs AS (
  SELECT state_id, action, count(*) AS tries, count(DISTINCT next_state_id) AS results
  FROM transitions_taken
  WHERE state_id IS NOT NULL AND next_state_id IS NOT NULL
  GROUP BY state_id, action
)
SELECT action, action_name(action) AS name, sum(tries) AS tries,
       sum(CASE WHEN tries > 1 THEN 1 ELSE 0 END) AS states_tried_again,
       sum(CASE WHEN results > 1 THEN 1 ELSE 0 END) AS states_in_conflict,
       max(results) AS most_results
FROM pairs
GROUP BY action
HAVING max(results) > 1 AND sum(tries) >= $tries
ORDER BY states_in_conflict DESC, action
