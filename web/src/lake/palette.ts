// Colours of scales, to be seen on light and on dark, and told apart with any colour vision.

/** Cheaper than the start, as it was, dearer. */
const COST = ["#2a78d0", "#6fabe6", "#a6abb3", "#eda06a", "#d8452b"] as const;
const DEPTH = ["#f2c14e", "#ec8a4a", "#d65576", "#a14a9c", "#6c55c4"] as const;
const SHADES = 64;

export interface Scale {
  low: number;
  high: number;
  /** What has the colour of the middle, where that is something. */
  middle: number | null;
  colourOf: (value: number) => string;
  gradient: string;
}

const parts = (hex: string): number[] => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));

function shadesOf(stops: readonly string[]): string[] {
  return Array.from({ length: SHADES }, (_, at) => {
    const place = (at / (SHADES - 1)) * (stops.length - 1);
    const low = Math.min(Math.floor(place), stops.length - 2);
    const [from, to] = [parts(stops[low]!), parts(stops[low + 1]!)];
    const mix = from.map((part, which) => Math.round(part + (to[which]! - part) * (place - low)));
    return `#${mix.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
  });
}

/** The ends leave out the extreme hundredth, which would hide the differences between the rest. */
function ends(values: readonly (number | null)[]): { low: number; high: number } {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  const at = (share: number) => known[Math.round(share * (known.length - 1))] ?? 0;
  return { low: at(0.01), high: at(0.99) };
}

function scale(stops: readonly string[], low: number, high: number, middle: number | null): Scale {
  const shades = shadesOf(stops);
  const share = (value: number): number => {
    if (middle === null) return (value - low) / (high - low);
    return value < middle ? (0.5 * (value - low)) / (middle - low) : 0.5 + (0.5 * (value - middle)) / (high - middle);
  };
  const colourOf = (value: number) => shades[Math.max(0, Math.min(SHADES - 1, Math.round(share(value) * (SHADES - 1))))]!;
  return { low, high, middle, colourOf, gradient: `linear-gradient(to right, ${stops.join(", ")})` };
}

/** A scale for costs as shares of that of the start, which is grey. */
export function costScale(shares: readonly (number | null)[]): Scale {
  const { low, high } = ends(shares);
  return scale(COST, Math.min(low, 0.95), Math.max(high, 1.05), 1);
}

export function depthScale(depths: readonly number[]): Scale {
  return scale(DEPTH, 0, Math.max(ends(depths).high, 1), null);
}
