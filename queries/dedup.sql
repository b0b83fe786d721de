-- The state transitions as SQL defines them, computed afresh from the steps of closed episodes
-- This is what the table `state_transitions` is defined to hold. Of several next states the most
-- frequent one counts, among equals the one with the smallest id; `count` and the mean time are
-- over the steps that led to it; the rewards are those of the first of these steps.
WITH taken AS (
  SELECT t.*
  FROM transitions_taken AS t
  LEFT SEMI JOIN episodes AS e ON e.episode_id = t.episode_id
  WHERE t.state_id IS NOT NULL AND t.next_state_id IS NOT NULL
), counted AS (
  SELECT state_id, action, next_state_id, count(*) AS count,
         avg(wall_time_us) AS mean_wall_time_us
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
SELECT f.* EXCLUDE (episode_id, step_index, benchmark_uri, end_of_episode, wall_time_us, changed,
                    place),
       r.count, r.mean_wall_time_us
FROM ranked AS r
JOIN firsts AS f
  ON f.state_id = r.state_id AND f.action = r.action AND f.next_state_id = r.next_state_id
WHERE r.place = 1 AND f.place = 1
ORDER BY f.state_key, f.state_id, f.action
