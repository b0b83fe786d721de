-- How often every action changes nothing
-- topic: actions
-- param tries: integer = 1 -- leave out actions tried less often
SELECT action, action_name(action) AS name, count(*) AS tries,
       sum(CASE WHEN changed THEN 0 ELSE 1 END) AS noops,
       avg(CASE WHEN changed THEN 0.0 ELSE 1.0 END) AS noop_rate
FROM transitions_taken
WHERE changed IS NOT NULL
GROUP BY action
HAVING count(*) >= $tries
ORDER BY noop_rate DESC, action
