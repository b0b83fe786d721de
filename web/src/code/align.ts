// Which lines of two versions of a function belong together. LLVM numbers unnamed values and blocks
// in order, so one removed instruction renumbers all that follow. Lines that differ in such numbers
// alone are the same line here.

import { Change, diff, presentableDiff } from "@codemirror/merge";

/** Lines that belong together: `count` lines from line `a` of the first text and `b` of the second, from 0. */
export interface Run {
  a: number;
  b: number;
  count: number;
}

export interface Alignment {
  runs: Run[];
  /** What the view shows as changed, by offset. */
  changes: Change[];
  /** Lines that are listed among the changes although only their numbers differ: see `SYNC_CHARS`. */
  syncA: number[];
  syncB: number[];
  /** Where the real changes begin in the second text, by offset. */
  places: number[];
  added: number;
  removed: number;
  renumbered: number;
}

/**
 * The view aligns two equal stretches by counting letters if they are longer than 1000, which goes
 * wrong where numbers have more digits on one side. So a renumbered line is listed as changed after
 * this many letters, and the stretches stay shorter.
 */
const SYNC_CHARS = 600;
/** Blocks up to this size are compared letter by letter. */
const FINE_CHARS = 6000;
const LIMITS = { scanLimit: 3000, timeout: 250 };

const withoutNumbers = (line: string): string =>
  line.replace(/\s*; preds = .*$/, "").replace(/%\d+/g, "%").replace(/^\d+:/, ":");

/** Each different line as one letter, so that a comparison of letters compares lines. */
function asLetters(texts: readonly string[][]): string[] | null {
  const letters = new Map<string, string>();
  const SURROGATES = { from: 0xd800, count: 0x800 };
  const LETTERS_MAX = 0xffff - SURROGATES.count;
  const written = texts.map((lines) => lines.map((line) => {
    const plain = withoutNumbers(line);
    let letter = letters.get(plain);
    if (letter === undefined) {
      const at = letters.size + 1;
      letter = String.fromCharCode(at < SURROGATES.from ? at : at + SURROGATES.count);
      letters.set(plain, letter);
    }
    return letter;
  }).join(""));
  return letters.size >= LETTERS_MAX ? null : written;
}

/** The offset of every line, and one past the end of the text. */
function offsets(lines: readonly string[]): number[] {
  const found = [0];
  for (const line of lines) found.push(found.at(-1)! + line.length + 1);
  return found;
}

/** Aligns two texts; null where they have too many different lines for it. */
export function align(before: string, after: string): Alignment | null {
  const [a, b] = [before.split("\n"), after.split("\n")];
  const letters = asLetters([a, b]);
  if (!letters) return null;
  const [offA, offB] = [offsets(a), offsets(b)];
  const made: Alignment = {
    runs: [], changes: [], syncA: [], syncB: [], places: [], added: 0, removed: 0, renumbered: 0,
  };
  let [atA, atB] = [0, 0];
  const end = { fromA: a.length, toA: a.length, fromB: b.length, toB: b.length };
  for (const block of [...diff(letters[0]!, letters[1]!, LIMITS), end]) {
    addRun(made, { a: atA, b: atB, count: block.fromA - atA }, a, b, offA, offB);
    if (block !== end) {
      const cut = (offset: number, text: string) => Math.min(offset, text.length);
      const [fromA, toA] = [cut(offA[block.fromA]!, before), cut(offA[block.toA]!, before)];
      const [fromB, toB] = [cut(offB[block.fromB]!, after), cut(offB[block.toB]!, after)];
      made.changes.push(...fine(before, after, fromA, toA, fromB, toB));
      made.places.push(fromB);
      made.removed += block.toA - block.fromA;
      made.added += block.toB - block.fromB;
    }
    [atA, atB] = [block.toA, block.toB];
  }
  return made;
}

function fine(before: string, after: string, fromA: number, toA: number, fromB: number, toB: number): Change[] {
  const isSmall = toA - fromA <= FINE_CHARS && toB - fromB <= FINE_CHARS;
  if (!isSmall || fromA === toA || fromB === toB) return [new Change(fromA, toA, fromB, toB)];
  const found = presentableDiff(before.slice(fromA, toA), after.slice(fromB, toB), { scanLimit: 300, timeout: 30 });
  return found.map((one) => new Change(one.fromA + fromA, one.toA + fromA, one.fromB + fromB, one.toB + fromB));
}

function addRun(
  made: Alignment, run: Run, a: readonly string[], b: readonly string[], offA: readonly number[], offB: readonly number[],
): void {
  if (run.count === 0) return;
  made.runs.push(run);
  let chars = 0;
  for (let line = 0; line < run.count; line += 1) {
    const [inA, inB] = [run.a + line, run.b + line];
    chars += Math.max(a[inA]!.length, b[inB]!.length) + 1;
    if (a[inA] === b[inB]) continue;
    made.renumbered += 1;
    if (chars < SYNC_CHARS) continue;
    chars = 0;
    made.changes.push(new Change(offA[inA]!, offA[inA]! + a[inA]!.length, offB[inB]!, offB[inB]! + b[inB]!.length));
    made.syncA.push(inA);
    made.syncB.push(inB);
  }
}
