-- Laws about actions and pairs of actions, with the number of states that support each
-- topic: actions
-- param reward: reward = the first unscaled one -- the reward space for dominated actions
-- param law: law = % -- idempotent, commuting, absorbed, equal, inverse or dominated; a LIKE pattern
-- param support: integer = 10 -- leave out laws testable in fewer states
-- param rate: number = 1.0 -- leave out laws that hold in a smaller share of them
-- A law is tested where its actions change something: see `algebra` in docs/GLOSSARY.md.
SELECT law, action, action_name(action) AS name, other, action_name(other) AS other_name, support,
       holds, CAST(holds AS DOUBLE) / support AS rate
FROM algebra('{reward}')
WHERE law LIKE $law AND support >= $support AND CAST(holds AS DOUBLE) / support >= $rate
ORDER BY law, rate DESC, support DESC, action, other
