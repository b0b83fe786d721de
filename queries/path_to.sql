-- The shortest sequence that an episode played from a program to a state, for every benchmark
-- topic: sequences
-- param state: state -- the state's id, 40 hexadecimal digits
-- A fork, or a step of a cache, does not begin at the program, so its actions alone do not lead there; it is left out.
-- `shortest_sequence` joins them with other episodes.
WITH reached AS (
  SELECT benchmark_uri, episode_id, step_index,
         row_number() OVER (PARTITION BY benchmark_uri ORDER BY step_index, episode_id) AS place
  FROM steps
  WHERE state_id = $state AND episode_id IN (SELECT episode_id FROM program_episodes)
)
SELECT r.benchmark_uri, r.step_index AS steps, commandline(a.actions) AS commandline, a.actions,
       r.episode_id
FROM reached AS r
JOIN steps_with_actions AS a ON a.episode_id = r.episode_id AND a.step_index = r.step_index
WHERE r.place = 1
ORDER BY r.step_index, r.benchmark_uri
