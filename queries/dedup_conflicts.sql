-- The conflicts as SQL defines them, computed anew from the steps of closed episodes
-- topic: failures
-- This defines the contents of the table `conflicts`: every result of a (state, action) that led
-- to several states, with `count`, time and rewards as in `dedup`. It is plain SQL over `steps` and
-- `episodes`, so that other engines can run it. Retracted actions have no conflicts in the table,
-- but have them here.
WITH taken AS (
  SELECT *
  FROM (
    SELECT s.* EXCLUDE (benchmark_uri, end_of_episode, keyframe, state_id, state_key),
           lag(s.state_id) OVER (PARTITION BY s.episode_id ORDER BY s.step_index) AS state_id,
           lag(s.state_key) OVER (PARTITION BY s.episode_id ORDER BY s.step_index) AS state_key,
           s.state_id AS next_state_id, s.state_key AS next_state_key
    FROM steps AS s
    WHERE s.episode_id IN (SELECT episode_id FROM episodes)
  ) AS moves
  WHERE action IS NOT NULL AND next_state_id IS NOT NULL
), unstable AS (
  SELECT state_id, action
  FROM taken
  GROUP BY state_id, action
  HAVING count(DISTINCT next_state_id) > 1
), results AS (
  SELECT t.* EXCLUDE (wall_time_us), count(*) OVER result AS count,
         CAST(sum(t.wall_time_us) OVER result AS BIGINT) AS wall_time_us,
         row_number() OVER (PARTITION BY t.state_id, t.action, t.next_state_id
                            ORDER BY t.episode_id, t.step_index) AS place
  FROM unstable AS u
  JOIN taken AS t ON t.state_id = u.state_id AND t.action = u.action
  WINDOW result AS (PARTITION BY t.state_id, t.action, t.next_state_id)
)
SELECT state_id, state_key, action, next_state_id, next_state_key,
       count, wall_time_us, episode_id AS first_episode_id, step_index AS first_step_index,
       * EXCLUDE (state_id, state_key, action, next_state_id, next_state_key, count, wall_time_us,
                  episode_id, step_index, place)
FROM results
WHERE place = 1
ORDER BY state_key, state_id, action, next_state_id
