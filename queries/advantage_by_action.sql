-- Mean advantage of every action over the states in which it was tried
-- topic: values
-- param reward: reward = the first unscaled one -- the reward space
-- param gamma: number = 1.0 -- what a reward is worth one step later
-- param support: integer = 1 -- leave out actions tried in fewer states
SELECT action, action_name(action) AS name, count(*) AS states, avg(reward) AS mean_reward,
       avg(advantage) AS mean_advantage, avg(advantage_over_mean) AS mean_advantage_over_mean,
       avg(CASE WHEN advantage >= -1e-9 THEN 1.0 ELSE 0.0 END) AS best_rate
FROM advantage('{reward}', {gamma})
WHERE reward IS NOT NULL
GROUP BY action
HAVING count(*) >= $support
ORDER BY mean_advantage DESC, action
