import assert from "node:assert/strict";
import { test } from "node:test";
import { isOwn, sourceName } from "../../src/source.ts";

test("a pasted program has a name of its own", () => {
  const names = ["int f(void);", "int g(void);", "int f(void); ", ""].map((text) => sourceName("c", text));
  assert.equal(new Set(names).size, names.length);
  assert.equal(sourceName("c", "int f(void);"), names[0]);
  for (const name of names) assert.match(name, /^program-[0-9a-z]{11}\.c$/);
  assert.match(sourceName("ll", "x"), /\.ll$/);
});

test("a pasted program is none of a dataset", () => {
  assert.ok(isOwn("benchmark://user-v0/program-1.c"));
  assert.ok(!isOwn("benchmark://steplake-v0/huffman"));
});
