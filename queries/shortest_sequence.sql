-- The shortest sequence to a state from every benchmark that leads to it
-- topic: sequences
-- param state: state -- the state's id, 40 hexadecimal digits
-- It searches the transition graph: steps that change nothing are left out, and several episodes are
-- combined. `path_to` gives the shortest sequence that an episode played.
SELECT benchmark_uri, steps, commandline(actions) AS commandline, actions
FROM sequence_to({state})
ORDER BY steps, benchmark_uri
