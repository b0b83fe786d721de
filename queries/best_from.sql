-- The lowest known cost reachable from a state, and the shortest sequence to it
-- topic: sequences
-- param state: state -- the state's id, 40 hexadecimal digits
-- param cost: cost = that of the first reward -- the observation space that is the cost
SELECT state_id, cost, best_cost, steps, commandline(actions) AS commandline, actions, best_state_id
FROM best_cost({cost})
WHERE state_id = $state
