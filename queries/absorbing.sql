-- States that none of the tried actions changes
-- topic: states
-- param tried: integer = 1 -- leave out states in which fewer actions were tried
-- An action that changed a state even once, as in a conflict, changes it.
SELECT state_id, count(*) AS tried
FROM state_transitions
WHERE state_id NOT IN (SELECT state_id FROM conflicts)
GROUP BY state_id
HAVING count(*) >= $tried AND bool_and(next_state_id = state_id)
ORDER BY tried DESC, state_id
