import assert from "node:assert/strict";
import { test } from "node:test";
import { align } from "../../src/code/align.ts";
import { foldsOf } from "../../src/code/fold.ts";

const lines = (...all: string[]) => all.join("\n");

test("renumbered values are no change", () => {
  const before = lines("define i32 @f() {", "  %1 = alloca i32", "  %2 = load i32, ptr %9", "  ret i32 %2", "}");
  const after = lines("define i32 @f() {", "  %1 = load i32, ptr %8", "  ret i32 %1", "}");
  const found = align(before, after);
  assert.deepEqual([found?.added, found?.removed, found?.renumbered], [0, 1, 2]);
  assert.equal(found?.changes.length, 1);
  const [change] = found?.changes ?? [];
  assert.equal(before.slice(change?.fromA, change?.toA), "  %1 = alloca i32\n");
});

test("renumbered blocks and their predecessors are no change", () => {
  const found = align(lines("7:        ; preds = %0", "  ret void"), lines("5:      ; preds = %0, %3", "  ret void"));
  assert.deepEqual([found?.added, found?.removed, found?.renumbered], [0, 0, 1]);
});

test("other values, names and operators are changes", () => {
  for (const [before, after] of [
    ["%1 = add i32 %0, 1", "%1 = add i32 %0, 2"],
    ["call void @f(ptr %1)", "call void @g(ptr %1)"],
    ["%1 = add i32 %0, 1 #3", "%1 = add i32 %0, 1 #4"],
  ]) {
    const found = align(before ?? "", after ?? "");
    assert.deepEqual([found?.added, found?.removed], [1, 1], before);
  }
});

test("the changes are in order and within the texts, also at their ends", () => {
  const before = lines(...Array.from({ length: 300 }, (_, at) => `  %${at} = add i32 %${at + 7}, ${at % 11}`));
  const after = lines("first", ...before.split("\n").filter((_, at) => at % 13 !== 5).map((line) => line.replaceAll("%1", "%2")), "last");
  const found = align(before, after);
  let [endA, endB] = [0, 0];
  for (const { fromA, toA, fromB, toB } of found?.changes ?? []) {
    assert.ok(fromA >= endA && toA >= fromA && toA <= before.length);
    assert.ok(fromB >= endB && toB >= fromB && toB <= after.length);
    [endA, endB] = [toA, toB];
  }
  assert.equal(found?.added, 2);
  assert.equal(found?.removed, before.split("\n").filter((_, at) => at % 13 === 5).length);
});

test("only the middle of long equal stretches is folded", () => {
  assert.deepEqual(foldsOf([{ a: 0, b: 0, count: 20 }, { a: 22, b: 21, count: 13 }, { a: 40, b: 40, count: 60 }], 100), [
    { a: 0, b: 0, count: 16 },
    { a: 44, b: 44, count: 56 },
  ]);
});
