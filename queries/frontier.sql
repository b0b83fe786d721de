-- The most promising untried actions of each state, best first
-- topic: states
-- param reward: reward = the first scaled one -- the reward space; the default is comparable across programs
-- param actions: integer = 1 -- the most actions to list for a state
-- param limit: integer = 20 -- the number of rows
-- The promise of an action is the mean of its rewards over all transitions; support is their number.
SELECT state_id, tried, untried, action, action_name(action) AS name, promise, support
FROM frontier('{reward}', {actions})
ORDER BY promise DESC NULLS LAST, support DESC, state_key, state_id, action
LIMIT $limit
