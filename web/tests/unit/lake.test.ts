import assert from "node:assert/strict";
import { test } from "node:test";
import { layOut, pathOf, ratios } from "../../src/lake/layout.ts";
import { firstChoice, placeOf, toCsv } from "../../src/lake/result_text.ts";
import { merged, rates } from "../../src/lake/samples.ts";

const graph = (states: number, starts: number[], edges: [number, number][]) => ({
  states: Array.from({ length: states }, (_, at) => String(at)),
  starts,
  edges: { from: edges.map(([from]) => from), to: edges.map(([, to]) => to), action: edges.map(() => 0) },
});

test("a state lies as far out as its shortest path is long", () => {
  const made = layOut(graph(5, [0], [[0, 1], [1, 2], [2, 3], [0, 3], [3, 0]]));
  assert.deepEqual([...made.depth], [0, 1, 2, 1, 0]);
  assert.deepEqual(pathOf(made, 2), [0, 1, 2]);
  assert.deepEqual(pathOf(made, 4), [4]); // nothing leads there
  assert.equal(made.edge[3], 3);
});

test("no two states of a tree lie at the same place", () => {
  const edges: [number, number][] = [];
  for (let node = 1; node < 2000; node += 1) edges.push([Math.floor((node * 7919) % node), node]);
  const made = layOut(graph(2000, [0], edges));
  const places = new Set([...made.x].map((x, at) => `${x.toFixed(9)} ${made.y[at]?.toFixed(9)}`));
  assert.equal(places.size, 2000);
});

test("costs are compared with the start of the same tree", () => {
  const made = layOut(graph(4, [0, 2], [[0, 1], [2, 3]]));
  assert.deepEqual(ratios(made, [10, 5, 40, 60]), [1, 0.5, 1, 1.5]);
  assert.deepEqual(ratios(made, [null, 5, 0, 60]), [null, null, null, null]);
});

test("CSV has quotes where they are needed", () => {
  const columns = [{ name: "a,b", type: "Utf8" }, { name: "n", type: "Int64" }];
  assert.equal(toCsv({ columns, rows: [['say "x"', 1.5], [null, [1, 2]]] }), '"a,b",n\r\n"say ""x""",1.5\r\n,"[1,2]"\r\n');
});

test("a number too large for a double comes as a text, and is saved and drawn", () => {
  const columns = [{ name: "key", type: "UInt64" }];
  assert.equal(toCsv({ columns, rows: [["18446744073709551615"]] }), "key\r\n18446744073709551615\r\n");
  assert.equal(placeOf("18446744073709551615", "UInt64"), 2 ** 64);
});

test("a plot begins with what looks like an axis", () => {
  const columns = ["Utf8", "Int64", "Float64"].map((type, at) => ({ name: `c${at}`, type }));
  const result = { columns, is_cut: false, seconds: 0 };
  assert.deepEqual(firstChoice({ ...result, rows: [["a", 1, 5], ["b", 2, 3]] }), { x: 1, y: [2] });
  assert.deepEqual(firstChoice({ ...result, rows: [["a", 2, 5], ["b", 1, 3]] }), { x: -1, y: [1] });
});

test("samples are taken once, and rates are per second", () => {
  const sample = (at: number, steps: number) => ({ at, steps, states: 0 });
  const known = merged([sample(1, 10)], [sample(1, 10), sample(3, 50)]);
  assert.deepEqual(rates(known, "steps"), [null, 20]);
});
