// What is being recorded into the lake, as it happens.

import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api.ts";
import { number, plural } from "../format.ts";
import { recordingCommand } from "../hints.ts";
import { Commands, Figure, Problem, Waiting } from "../parts/basics.tsx";
import { Chart } from "../parts/chart.tsx";
import { describe, noteCounts } from "../store.ts";
import type { Progress, RunProgress } from "../wire.ts";
import { merged, rates, type Sample } from "./samples.ts";

const POLL_MS = 1000;

export function Recording() {
  const [progress, setProgress] = useState<Progress | null>(null);
  const [error, setError] = useState<unknown>(null);
  const samples = useRef<Sample[]>([]);

  useEffect(() => {
    const cancel = new AbortController();
    let timer = 0;
    const ask = async () => {
      try {
        const found = await api.progress(cancel.signal);
        samples.current = merged(samples.current, found.recent);
        setProgress(found);
        const last = found.recent.at(-1);
        if (last) noteCounts({ steps: last.steps, states: last.states, uncounted_steps: found.uncounted_steps });
        setError(null);
      } catch (problem) {
        if (cancel.signal.aborted) return;
        setError(problem);
      }
      timer = window.setTimeout(() => void ask(), document.hidden ? 5 * POLL_MS : POLL_MS);
    };
    void ask();
    return () => {
      cancel.abort();
      clearTimeout(timer);
    };
  }, []);
  if (!progress) return error ? <Problem error={error} /> : <Waiting what="Asking the lake" />;
  const isWriting = progress.runs.some((run) => run.is_writing);
  const { live, lake } = describe.value ?? {};
  const known = samples.current;
  return (
    <div class="recording">
      <Problem error={error} />
      <section class="panel now" aria-label="Now">
        <div class="bar">
          <h2>{isWriting ? "Recording now" : "Nothing is being recorded"}</h2>
          {isWriting && <span class="pulse" aria-hidden="true" />}
          <span class="dim">asked every second</span>
        </div>
        <Now samples={known} runs={progress.runs} />
        {!isWriting && (
          <div class="start-one">
            <p class="dim">This command records more, and its figures appear here:</p>
            {live && <Commands lines={[recordingCommand(live, lake?.path ?? "LAKE", "--episodes 1000")]} />}
          </div>
        )}
      </section>
      <section class="panel over-time" aria-label="Steps and states over time">
        <Chart x={known.map((sample) => sample.at)} isTime isFromZero xName="time" label="Steps and states of the lake over time"
          lines={[
            { name: "steps", values: known.map((sample) => sample.steps), colour: "accent" },
            { name: "states", values: known.map((sample) => sample.states), colour: "good" },
          ]} />
      </section>
      <section class="panel over-time" aria-label="Steps per second">
        <Chart x={known.map((sample) => sample.at)} isTime isFromZero xName="time" label="Steps per second over time"
          lines={[
            { name: "steps per second", values: rates(known, "steps"), colour: "accent", kind: "steps" },
            { name: "new states per second", values: rates(known, "states"), colour: "good", kind: "steps" },
          ]} />
      </section>
      <Runs runs={progress.runs} />
    </div>
  );
}

function Now({ samples, runs }: { samples: readonly Sample[]; runs: readonly RunProgress[] }) {
  const last = samples.at(-1);
  const speed = rates(samples, "steps").filter((rate) => rate !== null).slice(-5);
  const mean = speed.length > 0 ? speed.reduce((sum, rate) => sum + rate, 0) / speed.length : null;
  return (
    <dl class="figures">
      <Figure name="steps">{number(last?.steps)}</Figure>
      <Figure name="states">{number(last?.states)}</Figure>
      <Figure name="steps per second">{mean === null ? "–" : number(Math.round(mean))}</Figure>
      <Figure name="states per step">{last && last.steps > 0 ? number(last.states / last.steps, 2) : "–"}</Figure>
      <Figure name="episodes">{number(runs.reduce((sum, run) => sum + run.episodes, 0))}</Figure>
      <Figure name="runs">{number(runs.length)}</Figure>
    </dl>
  );
}

const begun = (at: RunProgress["started_at"]): string => {
  if (at === null) return "–";
  const time = new Date(typeof at === "number" ? at * 1000 : at);
  return Number.isNaN(time.getTime()) ? String(at) : time.toLocaleString();
};

function Runs({ runs }: { runs: readonly RunProgress[] }) {
  return (
    <section class="panel runs" aria-label="Runs">
      <div class="bar"><h2>Runs</h2><span class="dim">{plural(runs.length, "run")}</span></div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Table of runs">
        <table class="rows">
          <thead>
            <tr>
              <th scope="col">run</th>
              <th scope="col">state</th>
              <th scope="col">policy</th>
              <th scope="col">seed</th>
              <th scope="col" class="right">programs</th>
              <th scope="col" class="right">episodes</th>
              <th scope="col" class="right">steps</th>
              <th scope="col" class="right">states</th>
              <th scope="col">begun</th>
            </tr>
          </thead>
          <tbody>
            {[...runs].reverse().map((run) => (
              <tr key={run.run_id}>
                <th scope="row">{run.run_id}</th>
                <td class={run.is_writing ? "good" : ""}>
                  {run.is_writing ? "recording" : run.is_complete ? "complete" : "stopped, to be resumed"}
                </td>
                <td>{run.policy}</td>
                <td>{run.seed ?? "–"}</td>
                <td class="right">{number(run.benchmark_count ?? (Array.isArray(run.benchmarks) ? run.benchmarks.length : run.benchmarks))}</td>
                <td class="right">{number(run.episodes)}</td>
                <td class="right">{number(run.steps)}</td>
                <td class="right">{number(run.states)}</td>
                <td>{begun(run.started_at)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
