-- Benchmarks on which the compiler failed before the first step
-- topic: failures
SELECT benchmark_uri, outcome AS kind, count(*) AS episodes,
       first_value(detail ORDER BY episode_id) AS first_detail
FROM episodes
WHERE steps = 0 AND outcome NOT IN ('complete', 'ended')
GROUP BY benchmark_uri, outcome
ORDER BY benchmark_uri, kind
