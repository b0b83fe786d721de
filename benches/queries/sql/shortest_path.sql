-- How many steps it takes at least from one state to another.
SELECT max(step_index) AS steps
FROM shortest_path('{root_id}', '{state_id}')
