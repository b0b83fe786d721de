// Which features a path changes, and by how much.

import type { Features, FeaturesAlong } from "../wire.ts";

/** The features of the states of a path by space. A state without those of a space has an empty row. */
export function alongStates(states: readonly Record<string, Features>[]): Record<string, FeaturesAlong> {
  const along: Record<string, FeaturesAlong> = {};
  for (const features of states) {
    for (const [space, { names }] of Object.entries(features)) along[space] ??= { names, values: [] };
  }
  for (const [space, { values }] of Object.entries(along)) {
    values.push(...states.map((features) => features[space]?.values ?? []));
  }
  return along;
}

export interface Track {
  name: string;
  values: (number | null)[];
  first: number;
  last: number;
  /** The largest change of one step, without sign. */
  largest: number;
}

/** The features that some step of the path changes, those that changed most for their size first. */
export function changingTracks({ names, values }: FeaturesAlong): Track[] {
  const tracks = names.map((name, at) => {
    const along = values.map((row) => row[at] ?? null);
    const known = along.filter((value) => value !== null);
    const steps = along.slice(1).map((_, step) => Math.abs(change(along, step + 1) ?? 0));
    return { name, values: along, first: known[0] ?? 0, last: known.at(-1) ?? 0, largest: Math.max(0, ...steps) };
  });
  const weight = ({ first, last, largest }: Track) => largest / Math.max(Math.abs(first), Math.abs(last), 1);
  const moving = tracks.filter((track) => track.largest > 0);
  return moving.sort((a, b) => weight(b) * b.largest - weight(a) * a.largest);
}

/** By how much a step changed a feature. */
export function change(values: readonly (number | null)[], step: number): number | null {
  const before = values[step - 1];
  const after = values[step];
  return before == null || after == null ? null : after - before;
}

/** How strong a change is drawn, from -1 to 1: the square root, so that small changes are seen beside large ones. */
export function strength(delta: number, largest: number): number {
  return largest === 0 ? 0 : Math.sign(delta) * Math.sqrt(Math.min(Math.abs(delta) / largest, 1));
}
