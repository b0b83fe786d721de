-- Mean reward of every action
-- topic: actions
-- param reward: reward = the first scaled one -- the reward space; the default is comparable across programs
-- param tries: integer = 1 -- leave out actions tried less often
SELECT action, action_name(action) AS name, count(*) AS tries, avg({reward}) AS mean_reward,
       min({reward}) AS lowest, max({reward}) AS highest,
       avg(CASE WHEN {reward} > 0 THEN 1.0 ELSE 0.0 END) AS improved_rate
FROM steps
WHERE action IS NOT NULL AND {reward} IS NOT NULL
GROUP BY action
HAVING count(*) >= $tries
ORDER BY mean_reward DESC, action
