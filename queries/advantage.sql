-- The worth of every action tried in a state, best first
-- topic: values
-- param state: state -- the state's id, 40 hexadecimal digits
-- param reward: reward = the first unscaled one -- the reward space
-- param gamma: number = 1.0 -- what a reward is worth one step later
-- q is the reward plus the discounted best-known value of the next state. `advantage` is over the best-known
-- value of the state, so at most 0; `advantage_over_mean` is over the mean q of the steps taken here.
SELECT action, action_name(action) AS name, count, reward, q, best_value, mean_value, advantage,
       advantage_over_mean, next_state_id
FROM advantage('{reward}', {gamma})
WHERE state_id = $state
ORDER BY q DESC NULLS LAST, action
