-- States reachable from a state within a number of steps, nearest first
-- topic: states
-- param state: state -- the state to begin in
-- param steps: integer = 3 -- the largest number of steps
SELECT state_id, steps, previous_state_id, action, action_name(action) AS name
FROM reachable({state}, {steps})
ORDER BY steps, state_key, state_id
