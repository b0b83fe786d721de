// What the lake knows about a state.

import { useEffect, useState } from "preact/hooks";
import { api } from "../api.ts";
import { against, number, plural, programName, short, signed } from "../format.ts";
import { Choice, Copy, Figure, Problem, Waiting } from "../parts/basics.tsx";
import { later } from "../parts/later.tsx";
import { useLoad } from "../parts/load.ts";
import { adjust } from "../store.ts";
import type { LakePath, LakeState, Neighbour } from "../wire.ts";
import { graphHref, liveHref, StateLinks } from "./links.tsx";

const IrText = later(() => import("../code/ir_text.tsx").then((module) => module.IrText));

type Shown = "path" | "out" | "in" | "ir";

export function StateCard({ id }: { id: string }) {
  const [shown, setShown] = useState<Shown>("path");
  const state = useLoad((cancel) => api.state(id, cancel), [id]);
  const path = useLoad((cancel) => api.path(id, cancel), [id]);
  return (
    <div class="state-card">
      <div class="bar">
        <h2>State <span class="mono">{short(id)}</span></h2>
        <Copy text={id} what="the state's id" label="Copy id" />
        <span class="grow" />
        <button type="button" aria-label="Close the state" title="Close" onClick={() => adjust({ state: undefined })}>✕</button>
      </div>
      <Problem error={state.error} retry={state.reload} />
      {state.isLoading && <Waiting what="Looking up the state" />}
      {state.value && <Facts state={state.value} path={path.value} />}
      {state.value && (
        <>
          <nav class="onward" aria-label="This state elsewhere">
            <StateLinks id={id} />
            {path.value && <a href={liveHref(path.value.benchmark, path.value.actions)}>Go on from here, live</a>}
          </nav>
          <div class="bar">
            <Choice label="About the state" value={shown} onChange={setShown} options={[
              { value: "path", name: "Path" },
              { value: "out", name: `Out ${state.value.out_degree ?? ""}` },
              { value: "in", name: `In ${state.value.in_degree ?? ""}` },
              { value: "ir", name: "IR" },
            ]} />
          </div>
          {shown === "path" && <PathOf path={path.value} id={id} error={path.error} isLoading={path.isLoading} />}
          {(shown === "out" || shown === "in") && <Neighbours id={id} direction={shown} />}
          {shown === "ir" && <Ir id={id} />}
        </>
      )}
    </div>
  );
}

function Facts({ state, path }: { state: LakeState; path: LakePath | null }) {
  const costName = state.cost_name ?? Object.keys(state.observations)[0];
  const cost = costName === undefined ? null : state.observations[costName];
  const first = costName === undefined ? null : path?.costs[0]?.[costName];
  // Of one program: that of the path, which need not be the one that the state names.
  const oz = path ? path.Oz : state.baselines?.Oz;
  const benchmark = path?.benchmark ?? state.benchmark;
  return (
    <>
      {benchmark && (
        <p class="of-program">
          {state.is_start_of.length > 0 ? "The start of " : "A state of "}
          <a href={graphHref(state.state_id, benchmark)} title={benchmark}>{programName(benchmark)}</a>
          {state.is_start_of.length > 1 && <span class="dim"> and {plural(state.is_start_of.length - 1, "other")}</span>}
        </p>
      )}
      <dl class="figures">
        <Figure name={costName ?? "cost"}>{number(cost)}</Figure>
        {oz != null && <Figure name="against -Oz" title={`-Oz costs ${number(oz)}`}>{against(cost, oz)}</Figure>}
        <Figure name="against the start">{against(cost, first)}</Figure>
        <Figure name="actions tried">{number(state.actions_tried)} <span class="dim">of {number(state.actions_total)}</span></Figure>
      </dl>
    </>
  );
}

function PathOf({ path, id, error, isLoading }: { path: LakePath | null; id: string; error: unknown; isLoading: boolean }) {
  if (isLoading) return <Waiting what="Looking for a path" />;
  if (error || !path) return <Problem error={error} />;
  const cost = (at: number) => path.costs[at]?.[path.cost_name ?? ""] ?? null;
  return (
    <>
      <ol class="path-list">
        {path.states.map((state, at) => (
          <li key={state}>
            <button type="button" aria-current={state === id ? "step" : undefined} onClick={() => adjust({ state })}>
              <span class="index">{at}</span>
              <span class="name">{at === 0 ? "start" : path.actions[at - 1]?.name}</span>
              <span class="value">{number(cost(at))}</span>
            </button>
          </li>
        ))}
      </ol>
      <div class="bar foot"><span class="grow" /><Copy text={path.command} what="the command of the path" label="Copy command" /></div>
    </>
  );
}

function Neighbours({ id, direction }: { id: string; direction: "in" | "out" }) {
  const found = useLoad((cancel) => api.neighbours(id, direction, cancel), [id, direction]);
  if (found.isLoading) return <Waiting what="Looking up the neighbours" />;
  if (!found.value) return <Problem error={found.error} retry={found.reload} />;
  if (found.value.length === 0) {
    return <p class="nothing">{direction === "out" ? "No action was tried here." : "No recorded transition leads here."}</p>;
  }
  const usual = (one: Neighbour, of: "cost" | "difference") => one[of][one.cost_name ?? ""] ?? null;
  return (
    <ul class="path-list neighbours">
      {found.value.map((one) => {
        const delta = usual(one, "difference");
        return (
          <li key={`${one.action.index}:${one.state_id}`}>
            <button type="button" class={one.is_changed ? "" : "unchanged"} disabled={!one.is_changed}
              title={`${one.action.name}: ${plural(one.count, "time")}, state ${short(one.state_id)}`}
              onClick={() => adjust({ state: one.state_id })}>
              <span class="name">{one.action.name}</span>
              <span class={`value ${(delta ?? 0) < 0 ? "good" : (delta ?? 0) > 0 ? "bad" : "dim"}`}>
                {one.is_changed ? signed(delta) : "no change"}
              </span>
              <span class="value">{one.is_changed ? number(usual(one, "cost")) : ""}</span>
            </button>
          </li>
        );
      })}
    </ul>
  );
}

function Ir({ id }: { id: string }) {
  const found = useLoad((cancel) => api.stateIr(id, cancel), [id]);
  const [isSlow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), 1000);
    return () => clearTimeout(timer);
  }, []);
  if (found.isLoading) return <Waiting what={isSlow ? "Playing the path again to rebuild the IR" : "Fetching the IR"} />;
  if (!found.value) return <Problem error={found.error} retry={found.reload} />;
  return (
    <>
      <IrText text={found.value.text} />
      <div class="bar foot"><span class="grow" /><Copy text={found.value.text} what="the IR" label="Copy IR" /></div>
    </>
  );
}
