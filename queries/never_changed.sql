-- Actions that never changed a state, with the number of tries
-- topic: actions
-- param tries: integer = 1 -- leave out actions tried less often
SELECT action, action_name(action) AS name, count(*) AS tries,
       count(DISTINCT state_id) AS states, count(DISTINCT benchmark_uri) AS benchmarks
FROM transitions_taken
WHERE changed IS NOT NULL
GROUP BY action
HAVING count(*) >= $tries AND NOT bool_or(changed)
ORDER BY tries DESC, action
