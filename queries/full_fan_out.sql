-- States in which every action of the space was tried
-- topic: states
-- A failure counts as a try. Retracted actions are not required.
WITH space AS (
  SELECT action
  FROM actions
  WHERE name NOT IN (SELECT value FROM retractions WHERE kind = 'action')
), tried AS (
  SELECT state_id, action, CASE WHEN next_state_id = state_id THEN 0 ELSE 1 END AS changed,
         0 AS failed
  FROM state_transitions
  UNION ALL
  SELECT state_id, action, 0, 1 FROM failures
), pairs AS (
  SELECT state_id, action, max(changed) AS changed, max(failed) AS failed
  FROM tried
  WHERE action IN (SELECT action FROM space)
  GROUP BY state_id, action
)
SELECT state_id, count(*) AS actions, sum(changed) AS changing, sum(failed) AS failing
FROM pairs
GROUP BY state_id
HAVING count(*) = (SELECT count(*) FROM space)
ORDER BY changing DESC, state_id
