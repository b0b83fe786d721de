-- The rewards of each action, each transition weighed by how often it was taken.
SELECT action, sum(count) AS tries, sum("reward_Size" * count) / sum(count) AS mean_reward,
       min("reward_Size") AS lowest, max("reward_Size") AS highest, sum(wall_time_us) AS wall_time_us
FROM state_transitions
GROUP BY action
ORDER BY action
