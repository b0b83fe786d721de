-- The table `failures`: each (state, action) over which the compiler failed, with the first failure.
WITH failed AS (
  SELECT m.*, e.outcome AS kind, e.detail
  FROM (
    SELECT s.episode_id, s.step_index, s.action, s.state_id AS next_state_id,
           lag(s.state_id) OVER (PARTITION BY s.episode_id ORDER BY s.step_index) AS state_id,
           lag(s.state_key) OVER (PARTITION BY s.episode_id ORDER BY s.step_index) AS state_key
    FROM steps AS s
  ) AS m
  JOIN episodes AS e ON e.episode_id = m.episode_id
  WHERE m.action IS NOT NULL AND m.next_state_id IS NULL
), placed AS (
  SELECT *, count(*) OVER (PARTITION BY state_id, action) AS count,
         row_number() OVER (PARTITION BY state_id, action ORDER BY episode_id, step_index) AS place
  FROM failed
)
SELECT state_id, state_key, action, kind, detail, count, episode_id AS first_episode_id,
       step_index AS first_step_index
FROM placed
WHERE place = 1
ORDER BY state_key, state_id, action
