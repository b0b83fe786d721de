-- The best action sequence of any episode that begins at the program, for every benchmark, by cumulative reward
-- topic: sequences
-- param reward: reward = the first scaled one -- the reward space that is added up
-- param benchmark: benchmark = % -- a LIKE pattern for the benchmark's URI
-- A fork, or a step of a cache, does not begin at the program, so its actions alone do not lead there; it is left out.
-- Among equals the shortest sequence wins; doing nothing has reward 0. Sums are compared to nine
-- decimal places, so that rounding in the last bits does not choose the longer of two.
WITH scored AS (
  SELECT benchmark_uri, episode_id, step_index,
         CAST(sum(coalesce({reward}, 0.0))
              OVER (PARTITION BY episode_id ORDER BY step_index
                    ROWS UNBOUNDED PRECEDING) AS DECIMAL(38, 9)) AS total,
         state_id
  FROM steps
  WHERE benchmark_uri LIKE $benchmark
), ranked AS (
  SELECT *, row_number() OVER (PARTITION BY benchmark_uri
                               ORDER BY total DESC, step_index, episode_id) AS place
  FROM scored
  WHERE state_id IS NOT NULL AND episode_id IN (SELECT episode_id FROM program_episodes)
)
SELECT r.benchmark_uri, CAST(r.total AS DOUBLE) AS reward, r.step_index AS steps,
       commandline(a.actions) AS commandline, a.actions, r.state_id, r.episode_id
FROM ranked AS r
JOIN steps_with_actions AS a ON a.episode_id = r.episode_id AND a.step_index = r.step_index
WHERE r.place = 1
ORDER BY r.benchmark_uri
