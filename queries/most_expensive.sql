-- Actions by the time that they take, most expensive first
-- topic: actions
-- param tries: integer = 1 -- leave out actions tried less often
-- param limit: integer = 20 -- the number of actions to list
SELECT action, action_name(action) AS name, count(*) AS tries,
       avg(wall_time_us) AS mean_us, max(wall_time_us) AS max_us,
       CAST(sum(wall_time_us) AS DOUBLE) / 1e6 AS total_s,
       CAST(sum(wall_time_us) AS DOUBLE)
         / (SELECT sum(wall_time_us) AS all_us FROM steps WHERE action IS NOT NULL) AS share
FROM steps
WHERE action IS NOT NULL
GROUP BY action
HAVING count(*) >= $tries
ORDER BY total_s DESC, action
LIMIT $limit
