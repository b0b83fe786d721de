import assert from "node:assert/strict";
import { test } from "node:test";
import { alongStates, changingTracks } from "../../src/features/changes.ts";

test("a state without a vector keeps its step", () => {
  const counts = (insts: number) => ({ InstCount: { names: ["Total", "Alloca"], values: [insts, 2] } });
  const along = alongStates([{}, counts(10), {}, counts(7)]);
  assert.deepEqual(along, { InstCount: { names: ["Total", "Alloca"], values: [[], [10, 2], [], [7, 2]] } });
  // What a step without a vector did is not known.
  assert.deepEqual(changingTracks(along["InstCount"]!), []);
  const track = changingTracks(alongStates([counts(10), counts(7), {}])["InstCount"]!);
  assert.deepEqual(track.map(({ name, values }) => [name, values]), [["Total", [10, 7, null]]]);
});
