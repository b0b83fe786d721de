import assert from "node:assert/strict";
import { test } from "node:test";
import { actionsTo, bestOf, follow, pathTo, treeOf } from "../../src/tree.ts";
import type { SessionNode } from "../../src/wire.ts";

const node = (id: number, parent: number | null, action: number, cost: number | null): SessionNode => ({
  id, parent, action: parent === null ? null : { index: action, name: `a${action}` }, state_id: `${id}`, is_changed: true,
  reward: 0, cumulative_reward: 0, cost, failure: null, depth: 0,
});
// 0 → 1 → 3, and 0 → 2
const nodes = [node(0, null, 0, 10), node(1, 0, 7, 8), node(2, 0, 5, 9), node(3, 1, 5, 8)];

test("paths lead from the root", () => {
  const tree = treeOf(nodes);
  assert.deepEqual(pathTo(tree, 3).map((one) => one.id), [0, 1, 3]);
  assert.deepEqual(actionsTo(tree, 3), [7, 5]);
  assert.deepEqual(actionsTo(tree, 0), []);
});

test("actions are followed as far as they were tried", () => {
  const tree = treeOf(nodes);
  assert.deepEqual([follow(tree, [7, 5]).node.id, follow(tree, [7, 5]).isWhole], [3, true]);
  assert.deepEqual([follow(tree, [7, 6, 5]).node.id, follow(tree, [7, 6, 5]).isWhole], [1, false]);
});

test("the best is the first of the cheapest, and failures are none", () => {
  assert.equal(bestOf(nodes)?.id, 1);
  const failed = { ...node(4, 0, 3, 1), failure: { kind: "crash", detail: "" } };
  assert.equal(bestOf([...nodes, failed, node(5, 0, 2, null)])?.id, 1);
});
