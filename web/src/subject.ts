// What Code and Features look at: a path of a live session, or the path to a state of the lake.

import { useMemo } from "preact/hooks";
import { api } from "./api.ts";
import { alongStates } from "./features/changes.ts";
import { useLoad } from "./parts/load.ts";
import { busy, lakeState, path as livePath, selected, session, sessionError } from "./store.ts";
import type { ActionName, Command, Diff, DiffText, Features, FeaturesAlong, LakePath, Session, SessionNode } from "./wire.ts";

export interface Step {
  key: string;
  action: ActionName | null;
  isChanged: boolean;
  cost: number | null;
}

export interface Subject {
  /** Differs where anything else does. */
  id: string;
  benchmark: string;
  from: "session" | "lake";
  costName: string;
  steps: Step[];
  command: (signal: AbortSignal) => Promise<Command>;
  diff: (from: Step, to: Step, signal: AbortSignal) => Promise<Diff>;
  diffText: (from: Step, to: Step, name: string, signal: AbortSignal) => Promise<DiffText>;
  features: (signal: AbortSignal) => Promise<Record<string, FeaturesAlong>>;
}

export interface FoundSubject {
  subject: Subject | null;
  error: unknown;
  isLoading: boolean;
}

export function useSubject(): FoundSubject {
  const state = lakeState.value;
  const present = session.value;
  const node = selected.value;
  const recorded = useLoad(state ? (cancel) => api.path(state, cancel) : null, [state]);
  const live = useMemo(
    () => (!state && present && node ? liveSubject(present, node, livePath.value) : null),
    [state, present, node],
  );
  const fromLake = useMemo(() => (state && recorded.value ? lakeSubject(state, recorded.value) : null),
    [state, recorded.value]);
  if (state) return { subject: fromLake, error: recorded.error, isLoading: recorded.isLoading };
  return { subject: live, error: sessionError.value, isLoading: busy.value !== null };
}

function liveSubject(session: Session, node: SessionNode, path: readonly SessionNode[]): Subject {
  const { id } = session;
  return {
    id: `${id}/${node.id}`,
    benchmark: session.benchmark,
    from: "session",
    costName: session.cost_name,
    steps: path.map((step) => ({
      key: String(step.id), action: step.action, isChanged: step.is_changed, cost: step.cost,
    })),
    command: (signal) => api.command(id, node.id, signal),
    diff: (from, to, signal) => api.diff(id, Number(from.key), Number(to.key), signal),
    diffText: (from, to, name, signal) => api.diffText(id, Number(from.key), Number(to.key), name, signal),
    features: async (signal) => {
      const { nodes: _, ...spaces } = await api.features(id, node.id, signal);
      return spaces;
    },
  };
}

function lakeSubject(state: string, path: LakePath): Subject {
  const costName = path.cost_name ?? "cost";
  return {
    id: state,
    benchmark: path.benchmark,
    from: "lake",
    costName,
    steps: path.states.map((key, at) => ({
      key,
      action: path.actions[at - 1] ?? null,
      isChanged: at === 0 || key !== path.states[at - 1],
      cost: path.costs[at]?.[costName] ?? null,
    })),
    command: () => Promise.resolve({ opt: path.command }),
    diff: (from, to, signal) => api.lakeDiff(from.key, to.key, signal),
    diffText: (from, to, name, signal) => api.lakeDiffText(from.key, to.key, name, signal),
    features: (signal) => lakeFeatures(path.states, signal),
  };
}

/** The features of every state of a path, a few calls at a time. */
async function lakeFeatures(states: readonly string[], signal: AbortSignal): Promise<Record<string, FeaturesAlong>> {
  const AT_ONCE = 6;
  const found: Record<string, Features>[] = [];
  for (let from = 0; from < states.length; from += AT_ONCE) {
    const some = await Promise.all(states.slice(from, from + AT_ONCE).map((id) => api.state(id, signal)));
    found.push(...some.map(({ features }) => features));
  }
  return alongStates(found);
}
