-- The best sequence that each run found for every benchmark, as rows of a leaderboard
-- topic: sequences
-- param reward: reward = the first scaled one -- the reward space of the task
-- param benchmark: benchmark = % -- a LIKE pattern for the benchmark's URI
-- A run is one search: its row is where the rewards of one of its episodes add up to most, by the shortest sequence,
-- and the time that its starts and steps on the benchmark took in the compiler. So n runs with other seeds make n
-- rows. A fork does not begin at the program, so its actions alone do not lead there; it is left out, and so is what
-- comes after a state without a cost. With `--format csv` it is what `steplake leaderboard add` reads.
WITH scored AS (
  SELECT e.run_id, s.benchmark_uri, s.episode_id, s.step_index, s.state_id, s.wall_time_us,
         sum(coalesce(s.{reward}, 0.0))
           OVER (PARTITION BY s.episode_id ORDER BY s.step_index ROWS UNBOUNDED PRECEDING) AS reward,
         sum(CASE WHEN s.step_index > 0 AND s.{reward} IS NULL THEN 1 ELSE 0 END)
           OVER (PARTITION BY s.episode_id ORDER BY s.step_index ROWS UNBOUNDED PRECEDING) AS unknown
  FROM steps AS s
  JOIN episodes AS e ON e.episode_id = s.episode_id
  JOIN program_episodes AS p ON p.episode_id = s.episode_id
  WHERE s.benchmark_uri LIKE $benchmark
), ranked AS (
  -- Rounding in the last bits does not choose the longer of two sequences.
  SELECT *, sum(wall_time_us) OVER (PARTITION BY run_id, benchmark_uri) / 1e6 AS walltime,
         row_number() OVER (
           PARTITION BY run_id, benchmark_uri
           ORDER BY unknown > 0, CAST(reward AS DECIMAL(38, 9)) DESC, step_index, episode_id
         ) AS place
  FROM scored
)
SELECT r.benchmark_uri AS benchmark, r.reward, r.walltime, commandline(a.actions) AS commandline
FROM ranked AS r
JOIN steps_with_actions AS a ON a.episode_id = r.episode_id AND a.step_index = r.step_index
WHERE r.place = 1 AND r.unknown = 0
ORDER BY r.benchmark_uri, r.run_id
