-- What is known of each benchmark.
SELECT benchmark_uri, count(*) AS steps, count(DISTINCT state_key) AS states,
       count(DISTINCT episode_id) AS episodes, count(DISTINCT action) AS actions
FROM steps
GROUP BY benchmark_uri
ORDER BY benchmark_uri
