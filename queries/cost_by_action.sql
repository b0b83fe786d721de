-- Mean change of a cost by every action, over the state transitions
-- topic: actions
-- param cost: cost = that of the first reward -- the observation space that is the cost
-- param tries: integer = 1 -- leave out actions with fewer transitions
-- Unlike `mean_reward` it needs no rewards. For `gcc-v0` it says which options matter on a walk: `cost=obj_size`.
SELECT t.action, action_name(t.action) AS name, count(*) AS transitions,
       sum(CASE WHEN n."{cost}" <> b."{cost}" THEN 1 ELSE 0 END) AS changing,
       avg(CAST(n."{cost}" AS DOUBLE) - b."{cost}") AS mean_change,
       min(n."{cost}" - b."{cost}") AS lowest_change, max(n."{cost}" - b."{cost}") AS highest_change
FROM state_transitions AS t
JOIN observations AS b ON b.state_id = t.state_id
JOIN observations AS n ON n.state_id = t.next_state_id
WHERE b."{cost}" IS NOT NULL AND n."{cost}" IS NOT NULL
GROUP BY t.action
HAVING count(*) >= $tries
ORDER BY mean_change, t.action
