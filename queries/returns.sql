-- The n-step return of every step: its reward and the discounted rewards of the steps after it
-- topic: values
-- param reward: reward = the first scaled one -- the reward space
-- param steps: integer = 5 -- the number of steps to add up; 0 for all to the end of the episode
-- param gamma: number = 1.0 -- what a reward is worth one step later
-- param benchmark: benchmark = % -- a LIKE pattern for the benchmark's URI
SELECT s.benchmark_uri, r.episode_id, r.step_index, s.action, action_name(s.action) AS name,
       r.reward, r."return"
FROM returns('{reward}', NULLIF({steps}, 0), {gamma}) AS r
JOIN steps AS s ON s.episode_id = r.episode_id AND s.step_index = r.step_index
WHERE s.benchmark_uri LIKE $benchmark
ORDER BY r.episode_id, r.step_index
