-- The shortest known path from one state to another, step by step
-- topic: sequences
-- param from: state -- the state to begin in
-- param to: state -- the state to end in
SELECT step_index, action, action_name(action) AS name, state_id
FROM shortest_path({from}, {to})
ORDER BY step_index
