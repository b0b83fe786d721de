-- How often each action changes nothing: a window over all steps.
SELECT action, count(*) AS tries, sum(CASE WHEN changed THEN 0 ELSE 1 END) AS noops
FROM (
  SELECT action, state_key <> lag(state_key) OVER (PARTITION BY episode_id ORDER BY step_index) AS changed
  FROM steps
) AS moves
WHERE action IS NOT NULL AND changed IS NOT NULL
GROUP BY action
ORDER BY action
