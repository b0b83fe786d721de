// What the page knows: the server's description, the address, the live session, what views look at.

import { computed, signal } from "@preact/signals";
import { api, ApiError, type NewSession } from "./api.ts";
import { programName } from "./format.ts";
import { formatActions, formatRoute, parseActions, parseRoute, type LakePage, type Params, type Route, type View }
  from "./route.ts";
import { isOwn, keepSource, keptSource } from "./source.ts";
import { ownSessions } from "./tab.ts";
import { actionsTo, follow, pathTo, treeOf } from "./tree.ts";
import type { Action, Describe, LakeAbout, Session } from "./wire.ts";

export const describe = signal<Describe | null>(null);
export const describeError = signal<unknown>(null);

export async function loadDescribe(): Promise<void> {
  describeError.value = null;
  try {
    describe.value = await api.describe();
  } catch (error) {
    describeError.value = error;
  }
}

/** Looks again. What was known stays if the server does not answer now; what is asked next says so. */
export async function refreshDescribe(): Promise<void> {
  if (!describe.value) return loadDescribe();
  try {
    describe.value = await api.describe();
  } catch {
    // As above.
  }
  return undefined;
}

/** Notes counts of the lake that came with another answer. */
export function noteCounts(counts: Pick<LakeAbout, "steps" | "states" | "uncounted_steps">): void {
  const present = describe.value;
  if (!present?.lake) return;
  const { steps, states, uncounted_steps } = present.lake;
  if (steps === counts.steps && states === counts.states && uncounted_steps === counts.uncounted_steps) return;
  describe.value = { ...present, lake: { ...present.lake, ...counts } };
}

// ---- the address

export const route = signal<Route>(parseRoute(location.hash));

/** Shows another place; `replace` where going back should not stop at the present one. */
export function go(hash: string, replace = false): void {
  if (hash !== location.hash) history[replace ? "replaceState" : "pushState"](null, "", hash);
  route.value = parseRoute(hash);
}

/** Changes parameters of the present place; undefined takes one away. */
export function adjust(changes: Record<string, string | undefined>): void {
  const { view, page, params } = route.value;
  go(formatRoute(view, page, { ...params, ...changes }), true);
}

// ---- the live session

export const session = signal<Session | null>(null);
export const selectedId = signal<number>(0);
/** What is being done, in words, while the server works. */
export const busy = signal<string | null>(null);
export const sessionError = signal<unknown>(null);

export const tree = computed(() => (session.value ? treeOf(session.value.nodes) : null));
export const selected = computed(() => {
  const found = tree.value;
  return found ? (found.byId.get(selectedId.value) ?? found.root) : null;
});
export const path = computed(() => (tree.value && selected.value ? pathTo(tree.value, selected.value.id) : []));

export const actionsOf = (space: string | undefined): Action[] =>
  describe.value?.live.action_spaces.find((known) => known.name === space)?.actions ?? [];

/** The parameters that name the live session and its node. */
export function liveParams(): Record<string, string> {
  const present = session.value;
  if (!present || !tree.value || !selected.value) return {};
  return {
    benchmark: present.benchmark,
    space: present.action_space,
    reward: present.reward_space,
    actions: formatActions(actionsTo(tree.value, selected.value.id)),
    session: present.id,
  };
}

/** What is opened when the present work is done: what was asked for last. */
let next: (() => void) | null = null;

function afterwards(work: () => void): void {
  next = work;
  if (isTrying()) stop();
}

async function doing(what: string, work: () => Promise<void>): Promise<void> {
  if (busy.value) return;
  busy.value = what;
  sessionError.value = null;
  try {
    await work();
  } catch (error) {
    sessionError.value = error;
  } finally {
    busy.value = null;
    const waiting = next;
    next = null;
    waiting?.();
  }
}

/** Replaces the present session, at the node that actions lead to. */
function show(opened: Session, actions: readonly number[]): void {
  ownSessions.add(opened.id);
  session.value = opened;
  selectedId.value = follow(treeOf(opened.nodes), actions).node.id;
}

/** Ends a session, which no other tab shows. */
function end({ id }: Session): void {
  ownSessions.delete(id);
  void api.endSession(id).catch(() => undefined);
}

/** What a view keeps in the address besides what it looks at. */
function own({ step, base, function: name, space_shown }: Params): Record<string, string | undefined> {
  return { step, base, function: name, space_shown };
}

/** Puts the session's node into the address, where the view shows it. */
export function nameNode(): void {
  const { view, params } = route.value;
  // An address that waits to be opened stays.
  if (next || view === "lake" || params["state"]) return;
  const kept = view === "session" ? {} : own(params);
  go(formatRoute(view, null, { ...liveParams(), ...kept }), true);
}

export const start = (wanted: NewSession): Promise<void> => {
  if (isTrying()) {
    afterwards(() => void start(wanted));
    return Promise.resolve();
  }
  return doing("Compiling the program", async () => {
    const before = session.value;
    const opened = await api.startSession(wanted);
    if (wanted.source) keepSource(opened.benchmark, wanted.source);
    show(opened, wanted.actions ?? []);
    if (before) end(before);
    if (route.value.view !== "session") go(formatRoute("session", null, liveParams()));
    nameNode();
  });
};

const OPENING = "Opening the session of this link";

/**
 * Opens what a link names: the session if it is of this tab, a fork of it if the server still has it, otherwise a new
 * one along its actions.
 */
export async function openFrom(params: Params): Promise<void> {
  const actions = parseActions(params["actions"]);
  const present = session.value;
  next = null;
  const isPresent = present && (params["session"] === present.id || (!params["session"] && !params["benchmark"]));
  // The session that is being opened would take the place of the present one.
  if (busy.value !== null && (params["session"] || params["benchmark"]) && (!isPresent || busy.value === OPENING)) {
    afterwards(() => void openFrom(params));
    return;
  }
  if (isPresent) {
    if (tree.value && params["actions"] !== undefined) await goTo(actions);
    return;
  }
  if (!params["session"] && !params["benchmark"]) return;
  await doing(OPENING, async () => {
    const kept = params["session"] ? await sessionOrNull(params["session"], actions) : null;
    if (kept) {
      show(kept, actions);
    } else {
      const benchmark = params["benchmark"] ?? "";
      const wanted: NewSession = { benchmark, actions };
      if (params["space"]) wanted.action_space = params["space"];
      if (params["reward"]) wanted.reward_space = params["reward"];
      const source = keptSource(benchmark);
      if (source) wanted.source = source;
      else if (isOwn(benchmark)) throw new Error(sourceIsGone(benchmark));
      const opened = await api.startSession(wanted);
      if (source) keepSource(opened.benchmark, source);
      show(opened, actions);
    }
    nameNode();
  });
}

const sourceIsGone = (benchmark: string): string =>
  `The session of this link has ended, and only the tab in which ${programName(benchmark)} was pasted keeps its source. ` +
  "Open the link there, or paste the program again.";

async function sessionOrNull(id: string, actions: number[]): Promise<Session | null> {
  try {
    return await (ownSessions.has(id) ? api.session(id) : api.forkSession(id, actions));
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

async function goTo(actions: number[]): Promise<void> {
  if (!tree.value) return;
  const { node, isWhole } = follow(tree.value, actions);
  if (isWhole) selectedId.value = node.id;
}

export function select(id: number): void {
  selectedId.value = id;
  nameNode();
}

/** Takes an action in a node, or goes to the node that it led to before. */
export const apply = (action: number, parent = selected.value?.id): Promise<void> => {
  const present = session.value;
  if (!present || parent === undefined) return Promise.resolve();
  const tried = tree.value?.children.get(parent)?.find((child) => child.action?.index === action);
  if (tried) {
    select(tried.id);
    return Promise.resolve();
  }
  return doing("Running the pass", async () => {
    const { nodes } = await api.addNodes(present.id, parent, [action]);
    addNodes(nodes);
    const last = nodes.at(-1);
    if (last) select(last.failure ? parent : last.id);
    if (last?.failure) throw new Error(failureWords(last.action?.name ?? "The pass", last.failure));
  });
};

export const failureWords = (action: string, failure: { kind: string; detail: string }): string =>
  `${action} failed (${failure.kind}): ${failure.detail}. The session goes on from the state before it.`;

export const TRYING_ALL = "Trying";
const isTrying = (): boolean => busy.value?.startsWith(TRYING_ALL) ?? false;

/** Tries every action that was not tried in a node yet, and stays there. */
export const applyAll = (): Promise<void> => {
  const present = session.value;
  const from = selected.value;
  if (!present || !from) return Promise.resolve();
  const tried = new Set((tree.value?.children.get(from.id) ?? []).map((child) => child.action?.index));
  const rest = actionsOf(present.action_space).filter((action) => !tried.has(action.index));
  return doing(TRYING_ALL, async () => {
    stopWanted = false;
    for (const [at, action] of rest.entries()) {
      busy.value = `${TRYING_ALL} ${at + 1} of ${rest.length}`;
      addNodes((await api.addNodes(present.id, from.id, [action.index])).nodes);
      if (session.value?.id !== present.id || stopWanted) break;
    }
  });
};

let stopWanted = false;
export const stop = (): void => {
  stopWanted = true;
};

function addNodes(nodes: Session["nodes"]): void {
  const present = session.value;
  if (!present) return;
  const known = new Set(present.nodes.map((node) => node.id));
  session.value = { ...present, nodes: [...present.nodes, ...nodes.filter((node) => !known.has(node.id))] };
}

/** Removes the selected node and what is below it. */
export const undo = (): Promise<void> => {
  const present = session.value;
  const node = selected.value;
  if (!present || !node || node.parent === null) return Promise.resolve();
  const parent = node.parent;
  return doing("Removing", async () => {
    const removed = new Set((await api.removeNode(present.id, node.id)).removed);
    session.value = { ...present, nodes: present.nodes.filter((kept) => !removed.has(kept.id)) };
    select(parent);
  });
};

export function leave(): void {
  if (session.value) end(session.value);
  session.value = null;
  sessionError.value = null;
  if (isTrying()) stop();
  go(formatRoute("session", null, {}));
}

// ---- what Code and Features look at

/** The state of the lake that Code and Features look at, or null for the live session. */
export const lakeState = signal<string | null>(null);
export const lastLake = signal<string>(formatRoute("lake", "graph", {}));

/** Where the link to a view leads. */
export function hrefOf(view: View, page: LakePage | null = null): string {
  if (view === "lake") return page ? formatRoute("lake", page, {}) : lastLake.value;
  if (view === "session") return formatRoute("session", null, liveParams());
  return formatRoute(view, null, lakeState.value ? { state: lakeState.value } : liveParams());
}
