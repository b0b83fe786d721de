// Ways from a state of the lake to what shows it.

import { short } from "../format.ts";
import { formatActions, formatRoute } from "../route.ts";
import { describe } from "../store.ts";
import type { ActionName } from "../wire.ts";

export const graphHref = (state: string, benchmark?: string): string =>
  formatRoute("lake", "graph", { benchmark, state });

export function StateLink({ id, benchmark }: { id: string; benchmark?: string }) {
  return <a class="mono" href={graphHref(id, benchmark)} title={`State ${id} in the graph`}>{short(id)}</a>;
}

/** A session that begins with recorded actions. */
export const liveHref = (benchmark: string, actions: readonly ActionName[]): string =>
  formatRoute("session", null, {
    benchmark,
    space: describe.value?.lake?.action_space,
    actions: formatActions(actions.map((action) => action.index)),
  });

export function StateLinks({ id }: { id: string }) {
  return (
    <>
      <a href={formatRoute("code", null, { state: id })}>Code</a>
      <a href={formatRoute("features", null, { state: id })}>Features</a>
    </>
  );
}

export function Sequence({ actions }: { actions: readonly ActionName[] }) {
  return <span class="mono" title={actions.map((action) => action.name).join(" ")}>
    {actions.map((action) => action.name).join(" ")}
  </span>;
}
