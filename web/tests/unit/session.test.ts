import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleOf, recordingCommand } from "../../src/hints.ts";
import { pathLines } from "../../src/session/path_lines.ts";
import { leave, taken } from "../../src/tab.ts";
import type { SessionNode } from "../../src/wire.ts";

const node = (id: number, cost: number): SessionNode => ({
  id, cost, parent: id === 0 ? null : id - 1, action: null, state_id: null, is_changed: true, reward: 1,
  cumulative_reward: id, failure: null, depth: id,
});

test("a chart without steps has the baselines as lines", () => {
  const session = { cost_name: "IrInstructionCount", baselines: { O0: 9, O3: 5, Oz: 4 } };
  const valuesOf = (path: SessionNode[]) => {
    const { x, lines } = pathLines(session, path);
    return { x, ...Object.fromEntries(lines.map((line) => [line.name, line.values])) };
  };
  assert.deepEqual(valuesOf([node(0, 9)]), {
    x: [0, 1], IrInstructionCount: [9, null], "-Oz": [4, 4], "-O3": [5, 5], "cumulative reward": [0, null],
  });
  const three = [node(0, 9), node(1, 7), node(2, 6)];
  assert.deepEqual(valuesOf(three), {
    x: [0, 1, 2], IrInstructionCount: [9, 7, 6], "-Oz": [4, 4, 4], "-O3": [5, 5, 5], "cumulative reward": [0, 1, 2],
  });
  assert.equal(pathLines({ ...session, baselines: { O0: 9, O3: null, Oz: null } }, three).lines.length, 2);
});

test("a hint names what the server has", () => {
  const dataset = (...examples: string[]) => ({ name: "", description: "", examples });
  const own = dataset("benchmark://steplake-v0/huffman", "benchmark://steplake-v0/orbits");
  const csmith = dataset("generator://csmith-v0/0", "generator://csmith-v0/9");
  assert.equal(exampleOf({ datasets: [own, csmith] }), "generator://csmith-v0/9");
  assert.equal(exampleOf({ datasets: [dataset(), own] }), "benchmark://steplake-v0/orbits");
  assert.equal(exampleOf({ datasets: [] }), undefined);
  assert.equal(recordingCommand({ environment: "llvm-v0", datasets: [csmith, own] }, "lake", "--episodes 2"),
    "steplake --lake lake generate --benchmark 'benchmark://steplake-v0/*' --episodes 2");
  assert.equal(recordingCommand({ environment: "loops-v0", datasets: [dataset("benchmark://loops-v0/a")] }, "lake", "--episodes 2"),
    "steplake --lake lake generate --env loops-v0 --benchmark 'benchmark://loops-v0/a' --episodes 2");
});

test("the sessions of a tab are in its storage only between two pages", () => {
  const kept = new Map<string, string>();
  const storage = {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  } as unknown as Storage;
  assert.deepEqual(taken(storage), []);
  leave(storage, new Set(["a", "b"]));
  assert.deepEqual(taken(storage), ["a", "b"]);
  assert.deepEqual(taken(storage), []);
});
