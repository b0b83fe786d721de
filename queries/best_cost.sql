-- The lowest cost known for every benchmark, and the shortest sequence to it over the transition graph
-- topic: sequences
-- param cost: text = IrInstructionCount -- the observation space that is the cost
-- param benchmark: text = % -- a LIKE pattern for the benchmark's URI
-- Unlike `best_episode`, which looks at one episode at a time, this joins what several episodes found. But of
-- an action that led to several states it knows the most frequent one alone: an episode may have come lower.
-- For every state instead of every benchmark: the function `best_cost()`.
SELECT benchmark_uri, cost, best_cost, steps, commandline(actions) AS commandline, actions,
       best_state_id AS state_id
FROM best_sequences({cost})
WHERE benchmark_uri LIKE $benchmark
ORDER BY benchmark_uri
