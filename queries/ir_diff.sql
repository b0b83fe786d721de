-- What an action did to the IR of a state, as a unified diff
-- topic: transitions
-- param state: state -- the state that the action was taken in
-- param action: action -- the action's name
SELECT t.action, a.name, t.next_state_id, ir_diff(t.state_id, t.next_state_id) AS diff
FROM state_transitions AS t
JOIN actions AS a ON a.action = t.action
WHERE t.state_id = $state AND a.name = $action
