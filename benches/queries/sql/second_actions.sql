-- Which action follows best on one that changed the state: transitions joined with those of the next state.
SELECT one.action, count(*) AS pairs, avg(one."reward_Size" + two."reward_Size") AS mean_reward
FROM state_transitions AS one
JOIN state_transitions AS two ON two.state_key = one.next_state_key
WHERE one.next_state_key <> one.state_key AND one.action < 8
GROUP BY one.action
ORDER BY one.action
