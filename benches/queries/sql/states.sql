-- All that is known of a hundred states.
SELECT state_key, count(*) AS actions, max("reward_Size") AS best
FROM state_transitions
WHERE state_key IN ({states})
GROUP BY state_key
ORDER BY state_key
