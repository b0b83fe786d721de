-- How many states can be reached in at most four steps, by the steps that it takes.
SELECT steps, count(*) AS states
FROM reachable('{root_id}', 4)
GROUP BY steps
ORDER BY steps
