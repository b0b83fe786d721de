import assert from "node:assert/strict";
import { test } from "node:test";
import { formatActions, formatRoute, parseActions, parseRoute } from "../../src/route.ts";

test("an address is read as it was written", () => {
  const params = { benchmark: "benchmark://debian-v0/zlib/adler32.c", actions: "1.2.3", q: "SELECT 1 & '?#%' = 100%" };
  const hash = formatRoute("lake", "sql", params);
  assert.deepEqual(parseRoute(hash), { view: "lake", page: "sql", params });
  assert.match(hash, /^#\/lake\/sql\?benchmark=benchmark:\/\/debian-v0\/zlib\/adler32\.c&/);
});

test("what is empty is left out, and what is unknown is the first", () => {
  assert.equal(formatRoute("session", null, { benchmark: "", actions: undefined }), "#/session");
  assert.equal(parseRoute("").view, "session");
  assert.equal(parseRoute("#/lake/nowhere").page, "graph");
});

test("a damaged path is no path", () => {
  assert.deepEqual(parseActions(formatActions([0, 17, 3])), [0, 17, 3]);
  for (const damaged of ["1.x", "1..2.5e-1x", "-1", "1.2,3"]) assert.deepEqual(parseActions(damaged), []);
  assert.deepEqual(parseActions(undefined), []);
});
