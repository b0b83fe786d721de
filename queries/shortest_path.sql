-- The shortest known way from one state to another, step by step
-- topic: sequences
-- param from: state -- where it begins
-- param to: state -- where it ends
SELECT step_index, action, action_name(action) AS name, state_id
FROM shortest_path({from}, {to})
ORDER BY step_index
