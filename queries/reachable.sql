-- States that can be reached from a state in so many steps, the nearest first
-- topic: states
-- param state: state -- where to begin
-- param steps: integer = 3 -- the most steps
SELECT state_id, steps, previous_state_id, action, action_name(action) AS name
FROM reachable({state}, {steps})
ORDER BY steps, state_key, state_id
