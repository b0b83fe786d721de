-- The lowest known cost of every benchmark, and the shortest sequence to it over the transition graph
-- topic: sequences
-- param cost: cost = that of the first reward -- the observation space that is the cost
-- param benchmark: benchmark = % -- a LIKE pattern for the benchmark's URI
-- Unlike `best_episode`, which looks at one episode at a time, this combines several episodes. But it knows only
-- the most frequent result of an action that led to several states, so an episode may have reached a lower cost.
-- The function `best_cost()` gives the same for every state.
SELECT benchmark_uri, cost, best_cost, steps, commandline(actions) AS commandline, actions,
       best_state_id AS state_id
FROM best_sequences({cost})
WHERE benchmark_uri LIKE $benchmark
ORDER BY benchmark_uri
