-- The shortest sequence to a state from every benchmark that leads to it
-- topic: sequences
-- param state: state -- the state's id, 40 hexadecimal digits
-- Over the transition graph: steps that change nothing are left out, and what several episodes found is
-- joined. `path_to` gives the shortest one that was played as it stands.
SELECT benchmark_uri, steps, commandline(actions) AS commandline, actions
FROM sequence_to({state})
ORDER BY steps, benchmark_uri
