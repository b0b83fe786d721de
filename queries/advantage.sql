-- What every action tried in a state is worth there, the best first
-- topic: values
-- param state: state -- the state's id, 40 hexadecimal digits
-- param reward: reward = IrInstructionCount -- the reward space
-- param gamma: number = 1.0 -- what a reward is worth one step later
-- q is the reward and the discounted best-known value of the next state. The advantage is over the best-known
-- value of the state, so at most 0; the one over the mean is over the q of what was done here, by how often.
SELECT action, action_name(action) AS name, count, reward, q, best_value, mean_value, advantage,
       advantage_over_mean, next_state_id
FROM advantage('{reward}', {gamma})
WHERE state_id = $state
ORDER BY q DESC NULLS LAST, action
