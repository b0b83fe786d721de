// The lowest cost of every recorded program, and the path that leads there.

import { useState } from "preact/hooks";
import { api } from "../api.ts";
import { against, number, programName } from "../format.ts";
import { Problem, Waiting } from "../parts/basics.tsx";
import { useLoad } from "../parts/load.ts";
import type { BestPath } from "../wire.ts";
import { liveHref, Sequence, StateLink, StateLinks } from "./links.tsx";

export function BestPaths() {
  const [text, setText] = useState("");
  const best = useLoad((cancel) => api.best(cancel), []);
  const rows = best.value?.filter((row) => row.benchmark.toLowerCase().includes(text.toLowerCase())) ?? [];
  const ratios = rows.flatMap((row) => (row.best_cost && row.Oz ? [row.best_cost / row.Oz] : []));
  const mean = Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length);
  return (
    <section class="panel page" aria-label="Best paths">
      <div class="bar">
        <h2>The best path of each program</h2>
        {ratios.length > 0 && (
          <span class="dim">geometric mean against -Oz: <strong>{against(mean, 1)}</strong> over {ratios.length} programs</span>
        )}
        <span class="grow" />
        <input class="search" type="text" value={text} placeholder="Search a program (/)" aria-label="Search a program"
          spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} />
      </div>
      <Problem error={best.error} retry={best.reload} />
      {best.isLoading && <Waiting what="Searching the graph" />}
      {best.value && rows.length === 0 && (
        <p class="nothing">{text === "" ? <>No path is known yet. Record episodes, then run <code>steplake dedup</code>.</>
          : `No program matches “${text}”.`}</p>
      )}
      {rows.length > 0 && <BestTable rows={rows} />}
    </section>
  );
}

function BestTable({ rows }: { rows: BestPath[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of best paths">
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">program</th>
            <th scope="col" class="right">untouched</th>
            <th scope="col" class="right">-Oz</th>
            <th scope="col" class="right">best</th>
            <th scope="col">against -Oz</th>
            <th scope="col">state</th>
            <th scope="col" class="right">steps</th>
            <th scope="col">actions</th>
            <th scope="col">open</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const state = row.states.at(-1) ?? "";
            return (
              <tr key={row.benchmark}>
                <th scope="row" title={row.benchmark}>{programName(row.benchmark)}</th>
                <td class="right">{number(row.O0)}</td>
                <td class="right">{number(row.Oz)}</td>
                <td class="right"><strong>{number(row.best_cost)}</strong></td>
                <td><Against cost={row.best_cost} reference={row.Oz} /></td>
                <td>{state && <StateLink id={state} benchmark={row.benchmark} />}</td>
                <td class="right">{row.actions.length}</td>
                <td class="long"><Sequence actions={row.actions} /></td>
                <td class="onward">
                  {state && <StateLinks id={state} />}
                  <a href={liveHref(row.benchmark, row.actions)}>Live</a>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

/** A bar to the left where something is cheaper, to the right where it is dearer. */
export function Against({ cost, reference }: { cost: number | null; reference: number | null | undefined }) {
  if (cost === null || !reference) return <span class="dim">–</span>;
  const share = Math.max(-1, Math.min(1, cost / reference - 1));
  const tone = share < 0 ? "good" : share > 0 ? "bad" : "dim";
  return (
    <span class="against">
      <span class="bar-space" aria-hidden="true">
        <i class={tone} style={{ width: `${Math.abs(share) * 50}%`, [share < 0 ? "right" : "left"]: "50%" }} />
      </span>
      <span class={tone}>{against(cost, reference)}</span>
    </span>
  );
}
