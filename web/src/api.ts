// Calls to the server that this page came from. No call goes anywhere else.

import type {
  BestPath, Command, Describe, Diff, DiffText, Features, FeaturesAlong, FrontierState, LakeBenchmark,
  LakeGraph, LakePath, LakeState, NamedQuery, Neighbour, Progress, QueryResult, Session, SessionNode, Source,
} from "./wire.ts";

const TOKEN_KEY = "steplake-token";

/** An answer that is an error, with the server's own words. */
export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

/** Takes the token out of the address, so that no copied link carries it, and keeps it for this tab. */
export function keepToken(hash: string): string {
  const found = /(^#|&)token=([^&]*)/.exec(hash);
  if (!found) return hash;
  try {
    sessionStorage.setItem(TOKEN_KEY, decodeURIComponent(found[2] ?? ""));
  } catch {
    // A damaged token is none: the server says that it wants one.
  }
  const rest = hash.replace(found[0], found[1] ?? "");
  return rest === "#" ? "" : rest.replace(/^#&/, "#");
}

async function call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = {};
  const token = sessionStorage.getItem(TOKEN_KEY);
  if (token) headers["Authorization"] = `Bearer ${token}`;
  const request: RequestInit = { method, headers, cache: "no-store" };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  if (signal) request.signal = signal;
  let response: Response;
  try {
    response = await fetch(path, request);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "The server does not answer. Is `steplake explore` still running?");
  }
  if (!response.ok) throw new ApiError(response.status, await wordsOf(response));
  if (response.status === 204) return undefined as T;
  return (await response.json()) as T;
}

async function wordsOf(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === "string" && error !== "") return error;
  } catch {
    // Not the server's own error: the status has to do.
  }
  if (response.status === 401) {
    return "The server wants a token. Open the link that `steplake explore` printed, which carries it.";
  }
  return `The server answered ${response.status} ${response.statusText}. ${text.slice(0, 200)}`.trim();
}

function query(parameters: Record<string, string | number | undefined>): string {
  const written = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== "") written.set(name, String(value));
  }
  const text = written.toString();
  return text === "" ? "" : `?${text}`;
}

const at = (...parts: (string | number)[]) => parts.map((part) => `/${encodeURIComponent(part)}`).join("");
const session = (...parts: (string | number)[]) => `/api/sessions${at(...parts)}`;
const state = (...parts: (string | number)[]) => `/api/lake/states${at(...parts)}`;

export interface NewSession {
  benchmark?: string;
  source?: Source;
  action_space?: string;
  reward_space?: string;
  actions?: number[];
}

export const api = {
  describe: () => call<Describe>("GET", "/api/describe"),

  startSession: (wanted: NewSession) => call<Session>("POST", "/api/sessions", wanted),
  session: (id: string) => call<Session>("GET", session(id)),
  /** A session with the same nodes that goes on by itself, with these actions from its start. */
  forkSession: (id: string, actions: number[]) => call<Session>("POST", session(id, "fork"), { actions }),
  endSession: (id: string) => call<unknown>("DELETE", session(id)),
  addNodes: (id: string, parent: number, actions: number[]) =>
    call<{ nodes: SessionNode[] }>("POST", session(id, "nodes"), { parent, actions }),
  removeNode: (id: string, node: number) => call<{ removed: number[] }>("DELETE", session(id, "nodes", node)),
  features: (id: string, node: number, signal?: AbortSignal) =>
    call<{ nodes: number[] } & Record<string, FeaturesAlong>>(
      "GET", session(id, "features") + query({ node }), undefined, signal),
  command: (id: string, node: number, signal?: AbortSignal) =>
    call<Command>("GET", session(id, "nodes", node, "command"), undefined, signal),
  diff: (id: string, from: number, to: number, signal?: AbortSignal) =>
    call<Diff>("GET", session(id, "diff") + query({ from, to }), undefined, signal),
  diffText: (id: string, from: number, to: number, name: string, signal?: AbortSignal) =>
    call<DiffText>("GET", `${session(id, "diff", "text")}${query({ from, to })}&function=${encodeURIComponent(name)}`,
      undefined, signal),
  ir: (id: string, node: number, signal?: AbortSignal) =>
    call<{ text: string }>("GET", session(id, "nodes", node, "ir"), undefined, signal),

  benchmarks: (like: string, limit: number, signal?: AbortSignal) =>
    call<LakeBenchmark[]>("GET", `/api/lake/benchmarks${query({ like, limit })}`, undefined, signal),
  state: (id: string, signal?: AbortSignal) => call<LakeState>("GET", state(id), undefined, signal),
  neighbours: (id: string, direction: "in" | "out", signal?: AbortSignal) =>
    call<Neighbour[]>("GET", state(id, "neighbours") + query({ direction, limit: 200 }), undefined, signal),
  path: (id: string, signal?: AbortSignal) => call<LakePath>("GET", state(id, "path"), undefined, signal),
  stateIr: (id: string, signal?: AbortSignal) =>
    call<{ text: string }>("GET", state(id, "ir"), undefined, signal),
  lakeDiff: (from: string, to: string, signal?: AbortSignal) =>
    call<Diff>("GET", `/api/lake/diff${query({ from, to })}`, undefined, signal),
  lakeDiffText: (from: string, to: string, name: string, signal?: AbortSignal) =>
    call<DiffText>("GET", `/api/lake/diff/text${query({ from, to })}&function=${encodeURIComponent(name)}`,
      undefined, signal),
  graph: (benchmark: string, limit: number, signal?: AbortSignal) =>
    call<LakeGraph>("GET", `/api/lake/graph${query({ benchmark, limit })}`, undefined, signal),
  best: (signal?: AbortSignal) => call<BestPath[]>("GET", "/api/lake/best?limit=500", undefined, signal),
  frontier: (benchmark: string, signal?: AbortSignal) =>
    call<FrontierState[]>("GET", `/api/lake/frontier${query({ benchmark, limit: 200 })}`, undefined, signal),
  queries: (signal?: AbortSignal) => call<NamedQuery[]>("GET", "/api/lake/queries", undefined, signal),
  query: (sql: string, limit: number, signal?: AbortSignal) =>
    call<QueryResult>("POST", "/api/lake/query", { sql, limit }, signal),
  namedQuery: (name: string, parameters: Record<string, string>, limit: number, signal?: AbortSignal) =>
    call<QueryResult>("POST", "/api/lake/query", { name, parameters, limit }, signal),
  progress: (signal?: AbortSignal) => call<Progress>("GET", "/api/lake/progress", undefined, signal),
};

export type { Features };
