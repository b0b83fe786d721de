-- Laws about actions and pairs of them, with the states that speak for each
-- topic: actions
-- param reward: reward = IrInstructionCount -- the reward space that says what dominates
-- param law: text = % -- idempotent, commuting, absorbed, equal, inverse or dominated; a LIKE pattern
-- param support: integer = 10 -- leave out laws that could be tested in fewer states
-- param rate: number = 1.0 -- leave out laws that hold in a smaller part of them
-- A law is tested where its actions change something: see `algebra` in docs/GLOSSARY.md.
SELECT law, action, action_name(action) AS name, other, action_name(other) AS other_name, support,
       holds, CAST(holds AS DOUBLE) / support AS rate
FROM algebra('{reward}')
WHERE law LIKE $law AND support >= $support AND CAST(holds AS DOUBLE) / support >= $rate
ORDER BY law, rate DESC, support DESC, action, other
