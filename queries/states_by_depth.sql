-- States by depth: the fewest steps of an episode from the program to a state
-- topic: states
-- Only episodes that begin at the program count: how deep a fork, or a step of a cache, begins is not in its steps.
WITH depths AS (
  SELECT state_id, min(step_index) AS depth
  FROM steps
  WHERE state_id IS NOT NULL AND episode_id IN (SELECT episode_id FROM program_episodes)
  GROUP BY state_id
), new AS (
  SELECT depth, count(*) AS new_states FROM depths GROUP BY depth
), at AS (
  SELECT step_index AS depth, count(*) AS steps, count(DISTINCT state_id) AS states
  FROM steps
  WHERE state_id IS NOT NULL AND episode_id IN (SELECT episode_id FROM program_episodes)
  GROUP BY step_index
)
SELECT at.depth, at.steps, at.states, coalesce(new.new_states, 0) AS new_states
FROM at
LEFT JOIN new ON new.depth = at.depth
ORDER BY at.depth
