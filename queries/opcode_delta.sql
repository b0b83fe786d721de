-- What an action did to the instruction counts of a state, or to other named numbers
-- topic: transitions
-- param state: state -- the state that the action was taken in
-- param action: action -- the action's name
-- param space: vector = the first -- the observation space of the numbers
WITH changed AS (
  SELECT unnest(feature_delta(b."{space}", n."{space}")) AS change
  FROM state_transitions AS t
  JOIN actions AS a ON a.action = t.action
  JOIN observations AS b ON b.state_id = t.state_id
  JOIN observations AS n ON n.state_id = t.next_state_id
  WHERE t.state_id = $state AND a.name = $action
)
SELECT change['feature'] AS opcode, change['before'] AS before, change['after'] AS after,
       change['after'] - change['before'] AS delta
FROM changed
