-- The state transitions as SQL defines them, computed anew from the steps of closed episodes
-- topic: transitions
-- This defines the contents of the table `state_transitions`. Of several next states the most
-- frequent one counts, and of equally frequent ones the one with the smallest id. `count` and the
-- time cover the steps that led to it; the rewards are those of the first of these steps. It is
-- plain SQL over `steps` and `episodes`, so that other engines can run it. Retracted actions have
-- no transitions in the table, but have them here.
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
), counted AS (
  SELECT state_id, action, next_state_id, count(*) AS count,
         CAST(sum(wall_time_us) AS BIGINT) AS wall_time_us
  FROM taken
  GROUP BY state_id, action, next_state_id
), ranked AS (
  SELECT *, row_number() OVER (PARTITION BY state_id, action
                               ORDER BY count DESC, next_state_id) AS place
  FROM counted
), firsts AS (
  SELECT *, row_number() OVER (PARTITION BY state_id, action, next_state_id
                               ORDER BY episode_id, step_index) AS place
  FROM taken
)
SELECT f.state_id, f.state_key, f.action, f.next_state_id, f.next_state_key,
       r.count, r.wall_time_us, f.episode_id AS first_episode_id, f.step_index AS first_step_index,
       f.* EXCLUDE (state_id, state_key, action, next_state_id, next_state_key, wall_time_us,
                    episode_id, step_index, place)
FROM ranked AS r
JOIN firsts AS f
  ON f.state_id = r.state_id AND f.action = r.action AND f.next_state_id = r.next_state_id
WHERE r.place = 1 AND f.place = 1
ORDER BY f.state_key, f.state_id, f.action
