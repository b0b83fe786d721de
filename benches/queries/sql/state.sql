-- All that is known of one state.
SELECT action, next_state_key, "reward_Size", count
FROM state_transitions
WHERE state_key = {state}
ORDER BY action
