-- The transition graph: every transition reachable from the benchmarks, once
-- topic: transitions
-- param benchmark: benchmark = % -- a LIKE pattern for the benchmark's URI
-- For other programs, use `--format arrow` or `parquet`; `steplake export` writes GraphML.
SELECT t.state_id, t.action, action_name(t.action) AS name,
       t.* EXCLUDE (state_id, state_key, action, next_state_key, first_episode_id, first_step_index)
FROM state_transitions AS t
WHERE t.state_id IN (SELECT state_id FROM sequences() WHERE benchmark_uri LIKE $benchmark)
ORDER BY t.state_key, t.state_id, t.action
