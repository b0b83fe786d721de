// The address of what is shown, after the `#`: it can be copied, kept and opened again.

export const VIEWS = ["session", "code", "features", "lake"] as const;
export type View = (typeof VIEWS)[number];

export const LAKE_PAGES = ["graph", "best", "frontier", "sql", "recording"] as const;
export type LakePage = (typeof LAKE_PAGES)[number];

export type Params = Readonly<Record<string, string>>;

export interface Route {
  view: View;
  /** The page of the lake's view. */
  page: LakePage;
  params: Params;
}

const oneOf = <T extends string>(all: readonly T[], name: string | undefined): T =>
  all.find((known) => known === name) ?? (all[0] as T);

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = split(hash.replace(/^#\/?/, ""), "?");
  const [view, page] = path.split("/");
  return {
    view: oneOf(VIEWS, view),
    page: oneOf(LAKE_PAGES, page),
    params: Object.fromEntries(new URLSearchParams(query)),
  };
}

export function formatRoute(view: View, page: LakePage | null, params: Record<string, string | undefined>): string {
  const kept = Object.entries(params).filter((entry): entry is [string, string] => Boolean(entry[1]));
  // Readable where it can be: a benchmark's URI keeps its `:` and `/`.
  const query = kept.map(([name, value]) => `${name}=${readable(value)}`).join("&");
  const path = view === "lake" ? `lake/${page ?? "graph"}` : view;
  return `#/${path}${query === "" ? "" : `?${query}`}`;
}

const readable = (value: string) => encodeURIComponent(value).replaceAll("%3A", ":").replaceAll("%2F", "/");

function split(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

export const formatActions = (actions: readonly number[]): string => actions.join(".");

/** The actions of a link, or none at all if it is damaged: half of a path would be another path. */
export function parseActions(text: string | undefined): number[] {
  if (!text) return [];
  const actions = text.split(".").map(Number);
  return actions.every((action) => Number.isInteger(action) && action >= 0) ? actions : [];
}
