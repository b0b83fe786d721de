-- The failures as SQL defines them, computed anew from the steps of closed episodes
-- topic: failures
-- This defines the contents of the table `failures`: a (state, action) on which the compiler
-- failed, or a state without an action, if it failed on the state in which an episode began. `kind`
-- and `detail` are those of the first failure. It is plain SQL over `steps` and `episodes`, so that
-- other engines can run it. Retracted actions have no failures in the table, but have them here.
WITH visits AS (
  SELECT s.episode_id, s.step_index, s.action, s.state_id AS next_state_id,
         coalesce(lag(s.state_id) OVER (PARTITION BY s.episode_id ORDER BY s.step_index),
                  s.state_id) AS state_id,
         coalesce(lag(s.state_key) OVER (PARTITION BY s.episode_id ORDER BY s.step_index),
                  s.state_key) AS state_key,
         e.outcome AS kind, e.detail, e.steps AS episode_steps
  FROM steps AS s
  JOIN episodes AS e ON e.episode_id = s.episode_id
  WHERE e.outcome NOT IN ('complete', 'ended')
), failed AS (
  SELECT *, count(*) OVER (PARTITION BY state_id, action) AS count,
         row_number() OVER (PARTITION BY state_id, action
                            ORDER BY episode_id, step_index) AS place
  FROM visits
  WHERE action IS NOT NULL AND next_state_id IS NULL
     OR action IS NULL AND state_id IS NOT NULL AND episode_steps = 0
)
SELECT state_id, state_key, action, kind, detail, count,
       episode_id AS first_episode_id, step_index AS first_step_index
FROM failed
WHERE place = 1
ORDER BY state_key, state_id, action NULLS LAST
