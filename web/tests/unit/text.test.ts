import assert from "node:assert/strict";
import { test } from "node:test";
import { change, changingTracks, strength } from "../../src/features/changes.ts";
import { against, number, programName, search, signed } from "../../src/format.ts";

test("numbers are written as people read them", () => {
  assert.deepEqual([number(1234567), number(0.123456), number(null), number(-0)], ["1,234,567", "0.123", "–", "0"]);
  assert.deepEqual([signed(2), signed(-0.5), signed(0)], ["+2", "−0.5", "0"]);
  assert.deepEqual([against(90, 100), against(100, 100), against(1, 0)], ["−10.0%", "±0.0%", "–"]);
});

test("a program is called by what follows its dataset", () => {
  assert.equal(programName("benchmark://steplake-v0/huffman"), "huffman");
  assert.equal(programName("benchmark://debian-v0/zlib/adler32.c"), "zlib/adler32.c");
});

test("a search finds letters in their order, whole words first", () => {
  const names = ["loop-rotate", "gvn-hoist", "newgvn", "gvn", "sroa"];
  assert.deepEqual(search(names, (name) => name, "gvn"), ["gvn", "gvn-hoist", "newgvn"]);
  assert.deepEqual(search(names, (name) => name, "lprt"), ["loop-rotate"]);
  assert.deepEqual(search(names, (name) => name, ""), names);
});

test("the features that change come first by how much they do", () => {
  const tracks = changingTracks({ names: ["same", "few", "many"], values: [[1, 5, 100], [1, 5, 20], [1, 4, 20]] });
  assert.deepEqual(tracks.map((track) => track.name), ["many", "few"]);
  assert.equal(change(tracks[0]?.values ?? [], 1), -80);
  assert.equal(change([null, 3], 1), null);
});

test("small changes are seen beside large ones", () => {
  assert.deepEqual([strength(-4, 100), strength(100, 100), strength(1, 0)], [-0.2, 1, 0]);
});
