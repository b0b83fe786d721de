// States from which it is worth going on.

import { api } from "../api.ts";
import { number, programName, signed } from "../format.ts";
import { Problem, Waiting } from "../parts/basics.tsx";
import { useLoad } from "../parts/load.ts";
import { adjust, go, route } from "../store.ts";
import type { FrontierState } from "../wire.ts";
import { Against } from "./best_paths.tsx";
import { liveHref, StateLink, StateLinks } from "./links.tsx";
import { ProgramChoice, usePrograms } from "./program_choice.tsx";
import { useState } from "preact/hooks";

export function FrontierPage() {
  const { benchmark = "" } = route.value.params;
  const programs = usePrograms();
  const found = useLoad((cancel) => api.frontier(benchmark, cancel), [benchmark]);
  const [problem, setProblem] = useState<unknown>(null);
  const ozOf = ({ benchmark: uri, cost_name }: FrontierState): number | null =>
    programs.find((program) => program.benchmark === uri)?.costs[cost_name]?.Oz ?? null;
  const goOn = (state: string) => {
    setProblem(null);
    api.path(state).then((path) => go(liveHref(path.benchmark, path.actions)), setProblem);
  };
  return (
    <section class="panel page" aria-label="Frontier">
      <div class="bar">
        <h2>Where to go on</h2>
        <span class="dim">states of low cost in which actions are untried, the most promising first</span>
        <span class="grow" />
        <ProgramChoice programs={programs} value={benchmark} onChange={(chosen) => adjust({ benchmark: chosen || undefined })} />
      </div>
      <Problem error={found.error ?? problem} retry={found.reload} />
      {found.isLoading && <Waiting what="Searching the graph" />}
      {found.value?.length === 0 && (
        <p class="nothing">Nothing is left to try here. Record more episodes, then run <code>steplake dedup</code>.</p>
      )}
      {found.value && found.value.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Table of the frontier">
          <table class="rows">
            <thead>
              <tr>
                <th scope="col">state</th>
                <th scope="col">program</th>
                <th scope="col" class="right">cost</th>
                <th scope="col">against -Oz</th>
                <th scope="col" class="right">untried actions</th>
                <th scope="col" class="right">steps</th>
                <th scope="col">most promising</th>
                <th scope="col">open</th>
              </tr>
            </thead>
            <tbody>
              {found.value.map((row) => (
                <tr key={row.state_id}>
                  <td><StateLink id={row.state_id} benchmark={row.benchmark} /></td>
                  <td title={row.benchmark}>{programName(row.benchmark)}</td>
                  <td class="right">{number(row.cost)}</td>
                  <td><Against cost={row.cost} reference={ozOf(row)} /></td>
                  <td class="right">{number(row.untried)}</td>
                  <td class="right">{number(row.depth)}</td>
                  <td>
                    {row.action && <span class="mono">{row.action.name}</span>}{" "}
                    {row.promise != null && <span class="dim">{signed(row.promise)}</span>}
                  </td>
                  <td class="onward">
                    <StateLinks id={row.state_id} />
                    <button type="button" class="link" onClick={() => goOn(row.state_id)}>Go on live</button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
