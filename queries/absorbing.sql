-- States that no action tried in them changes
-- topic: states
-- param tried: integer = 1 -- leave out states in which fewer actions were tried
SELECT state_id, count(*) AS tried
FROM state_transitions
GROUP BY state_id
HAVING count(*) >= $tried AND bool_and(next_state_id = state_id)
ORDER BY tried DESC, state_id
