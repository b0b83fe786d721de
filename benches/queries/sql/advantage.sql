-- What an action gives over the mean of all actions tried in the same state: a table joined with its groups.
SELECT t.action, count(*) AS states, avg(t."reward_Size" - m.mean) AS advantage
FROM state_transitions AS t
JOIN (
  SELECT state_key, avg("reward_Size") AS mean
  FROM state_transitions
  GROUP BY state_key
  HAVING count(*) > 1
) AS m ON m.state_key = t.state_key
GROUP BY t.action
ORDER BY t.action
