-- One episode from its beginning to its end.
SELECT step_index, action, state_key, "reward_Size"
FROM steps
WHERE episode_id = {episode}
ORDER BY step_index
