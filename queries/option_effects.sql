-- Which options matter: the cost of states with a choice, over that of the program's other states
-- topic: actions
-- needs choices
-- param cost: cost = that of the first reward -- the observation space that is the cost
-- param tries: integer = 10 -- leave out choices made in fewer states
-- param benchmark: benchmark = % -- a LIKE pattern for the program's URI, without `#` and a state
-- For lakes of `gcc-v0` that observe the cost and `choices`, and have each program untouched, as searches have:
-- `choices` is compared with that. `ratio` is the geometric mean over programs; 0.9 means a tenth less. Only where
-- choices were drawn at random (`random-choices`) is it the effect of the choice: a search makes good ones together.
-- `choice` is the place of the word, or 0 for `-f…` and 1 for `-fno-…`; the values of a parameter are counted together.
WITH untouched AS (
  SELECT b.benchmark_uri AS program, o.choices
  FROM benchmarks AS b
  JOIN observations AS o ON o.state_id = b.initial_state_id
  WHERE o.choices IS NOT NULL
    AND NOT regexp_like(CAST(b.benchmark_uri AS VARCHAR), concat('#', repeat('[0-9a-f]', 40), '\z'))
), reached AS (
  SELECT DISTINCT state_id, program
  FROM (
    SELECT state_id,
           regexp_replace(CAST(benchmark_uri AS VARCHAR), concat('#', repeat('[0-9a-f]', 40), '\z'), '') AS program
    FROM steps WHERE state_id IS NOT NULL
  )
  WHERE program LIKE $benchmark
), costs AS (
  SELECT r.program, ln(o."{cost}") AS cost, feature_delta(u.choices, o.choices) AS made
  FROM reached AS r
  JOIN observations AS o ON o.state_id = r.state_id
  JOIN untouched AS u ON u.program = r.program
  WHERE o."{cost}" > 0 AND o.choices IS NOT NULL
), totals AS (
  SELECT program, count(*) AS states, sum(cost) AS cost FROM costs GROUP BY program
), made AS (
  SELECT program, cost, unnest(made) AS made FROM costs
), by_choice AS (
  SELECT program, made['feature'] AS option,
         CASE WHEN starts_with(made['feature'], '--param') THEN NULL ELSE made['after'] END AS choice,
         count(*) AS states, sum(cost) AS cost
  FROM made
  GROUP BY 1, 2, 3
), ratios AS (
  SELECT c.option, c.choice, c.states,
         c.cost / c.states - (t.cost - c.cost) / (t.states - c.states) AS ratio
  FROM by_choice AS c
  JOIN totals AS t ON t.program = c.program
  WHERE t.states > c.states
), means AS (
  SELECT option, choice, sum(states) AS states, count(*) AS programs, avg(ratio) AS ratio
  FROM ratios
  GROUP BY option, choice
)
SELECT option, choice, states, programs, exp(ratio) AS ratio
FROM means
WHERE states >= $tries
ORDER BY abs(ratio) DESC, option, choice
