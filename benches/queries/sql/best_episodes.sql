-- The best cumulative reward of each benchmark: groups, and a join with the episodes.
SELECT e.benchmark_uri, count(*) AS episodes, max(s.total) AS best, sum(s.changes) AS changes
FROM (
  SELECT episode_id, sum("reward_SizeOz") AS total, count(DISTINCT state_key) AS changes
  FROM steps
  GROUP BY episode_id
) AS s
JOIN episodes AS e ON e.episode_id = s.episode_id
WHERE e.outcome = 'complete'
GROUP BY e.benchmark_uri
ORDER BY e.benchmark_uri
