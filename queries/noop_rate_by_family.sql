-- How often every action changes nothing, by family of programs
-- topic: actions
-- param tries: integer = 1 -- leave out actions tried less often on a family
-- param family: family = % -- a LIKE pattern for the family
SELECT b.family, t.action, action_name(t.action) AS name, count(*) AS tries,
       sum(CASE WHEN t.changed THEN 0 ELSE 1 END) AS noops,
       avg(CASE WHEN t.changed THEN 0.0 ELSE 1.0 END) AS noop_rate
FROM transitions_taken AS t
JOIN benchmarks AS b ON b.benchmark_uri = t.benchmark_uri
WHERE t.changed IS NOT NULL AND b.family LIKE $family
GROUP BY b.family, t.action
HAVING count(*) >= $tries
ORDER BY b.family, noop_rate DESC, t.action
