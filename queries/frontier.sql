-- What was not tried yet: in each state the most promising action, the best promises first
-- topic: states
-- param reward: reward = IrInstructionCountNorm -- the reward space; this one compares over programs
-- param actions: integer = 1 -- how many actions of a state to list at most
-- param limit: integer = 20 -- how many rows
-- The promise of an action is the mean of its rewards over all transitions; support is their number.
SELECT state_id, tried, untried, action, action_name(action) AS name, promise, support
FROM frontier('{reward}', {actions})
ORDER BY promise DESC NULLS LAST, support DESC, state_key, state_id, action
LIMIT $limit
