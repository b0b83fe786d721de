-- The best discounted return within three actions from a state, by the first of them.
SELECT one.action, count(*) AS ways,
       max(one."reward_Size" + 0.9 * two."reward_Size" + 0.81 * three."reward_Size") AS best
FROM state_transitions AS one
JOIN state_transitions AS two ON two.state_key = one.next_state_key
JOIN state_transitions AS three ON three.state_key = two.next_state_key
WHERE one.state_key = {root}
GROUP BY one.action
ORDER BY one.action
