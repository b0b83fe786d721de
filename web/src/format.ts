// Numbers and names as people read them.

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function number(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  // Zero has a sign, which says nothing.
  if (Number.isInteger(value)) return grouped.format(value === 0 ? 0 : value);
  return Number(value.toPrecision(Math.max(digits, 1))).toLocaleString("en", { maximumFractionDigits: 6 });
}

export function signed(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined) return "–";
  const text = number(Math.abs(value), digits);
  return value === 0 ? "0" : `${value > 0 ? "+" : "−"}${text}`;
}

/** How much less than a reference something costs: `−12.3%`, `+4.0%`. */
export function against(cost: number | null | undefined, reference: number | null | undefined): string {
  if (cost == null || reference == null || reference === 0) return "–";
  const percent = (cost / reference - 1) * 100;
  return `${percent > 0 ? "+" : percent < 0 ? "−" : "±"}${Math.abs(percent).toFixed(1)}%`;
}

export const short = (id: string): string => id.slice(0, 8);

/** `huffman` of `benchmark://steplake-v0/huffman`. */
export function programName(uri: string): string {
  const parts = uri.replace(/^[a-z-]+:\/\//, "").split("/");
  return parts.length > 2 ? parts.slice(1).join("/") : (parts.at(-1) ?? uri);
}

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${number(count)} ${count === 1 ? one : many}`;

/** Whether the letters of a search are in a name in their order, and how well they fit: less is better. */
export function fit(name: string, search: string): number | null {
  if (search === "") return 0;
  const text = name.toLowerCase();
  const wanted = search.toLowerCase();
  const at = text.indexOf(wanted);
  if (at >= 0) return at === 0 ? (text.length === wanted.length ? 0 : 1) : 2 + at / 1000;
  let from = 0;
  let gaps = 0;
  for (const letter of wanted) {
    const found = text.indexOf(letter, from);
    if (found < 0) return null;
    gaps += found - from;
    from = found + 1;
  }
  return 10 + gaps;
}

export function search<T>(all: readonly T[], nameOf: (one: T) => string, wanted: string): T[] {
  if (wanted === "") return [...all];
  return all
    .map((one, at) => ({ one, at, fit: fit(nameOf(one), wanted) }))
    .filter((found): found is { one: T; at: number; fit: number } => found.fit !== null)
    .sort((a, b) => a.fit - b.fit || a.at - b.at)
    .map((found) => found.one);
}
