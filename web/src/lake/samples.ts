// Counts of the lake over time.

export interface Sample {
  /** Seconds since 1970. */
  at: number;
  steps: number;
  states: number;
}

const SAMPLES_MAX = 3600;

/** Adds the samples that are newer than those known. */
export function merged(known: readonly Sample[], found: readonly Sample[]): Sample[] {
  const last = known.at(-1)?.at ?? Number.NEGATIVE_INFINITY;
  return [...known, ...found.filter((sample) => sample.at > last)].slice(-SAMPLES_MAX);
}

/** How much a count rose per second up to each sample; null for the first. */
export function rates(samples: readonly Sample[], of: "steps" | "states"): (number | null)[] {
  return samples.map((sample, at) => {
    const before = samples[at - 1];
    return before && sample.at > before.at ? (sample[of] - before[of]) / (sample.at - before.at) : null;
  });
}
