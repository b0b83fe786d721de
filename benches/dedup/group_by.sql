-- Only the counting of equal edges: less than what dedup does, which also picks the winners, keeps the
-- rewards of first steps and writes them in order.
SELECT state_id, action, next_state_id, count(*) AS count,
       CAST(sum(wall_time_us) AS BIGINT) AS wall_time_us
FROM (
  SELECT action, wall_time_us, state_id AS next_state_id,
         lag(state_id) OVER (PARTITION BY episode_id ORDER BY step_index) AS state_id
  FROM steps
) AS moves
WHERE action IS NOT NULL
GROUP BY state_id, action, next_state_id
