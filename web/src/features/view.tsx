// The numbers that describe a program, along a path: as lines, and as what each step did to them.

import { useMemo, useState } from "preact/hooks";
import { number, plural, programName, signed } from "../format.ts";
import { focusOn, useKeys } from "../keys.ts";
import { Choice, Empty, Problem, Waiting } from "../parts/basics.tsx";
import { Chart, type Line } from "../parts/chart.tsx";
import { useLoad } from "../parts/load.ts";
import { adjust, describe, hrefOf, lakeState, liveParams, route } from "../store.ts";
import { formatRoute } from "../route.ts";
import { useSubject, type Subject } from "../subject.ts";
import type { FeaturesAlong } from "../wire.ts";
import { change, changingTracks, type Track } from "./changes.ts";
import { Heat } from "./heat.tsx";
import { LakeEffects } from "./lake_effects.tsx";

type Shown = "path" | "lake";
const COLOURS = ["accent", "good", "warm", "violet", "teal", "bad"];

export function FeaturesView() {
  const { subject, error, isLoading } = useSubject();
  const { params } = route.value;
  const shown: Shown = params["space_shown"] === "lake" ? "lake" : "path";
  const hasLake = describe.value?.lake != null;
  const spaces = Object.keys(describe.value?.live.feature_spaces ?? {});
  const [space, setSpace] = useState(spaces.includes("InstCount") ? "InstCount" : (spaces[0] ?? ""));
  useKeys({ "/": () => focusOn("main .search") });
  return (
    <div class="features">
      <header class="summary">
        <div class="what">
          <h2 class="title">{shown === "lake" ? "The whole lake" : subject ? programName(subject.benchmark) : "Features"}</h2>
          {shown === "path" && subject && (
            <p class="dim">
              {subject.from === "lake" ? "recorded path" : "live path"} · {plural(subject.steps.length - 1, "step")}
            </p>
          )}
        </div>
        <span class="grow" />
        <Choice label="Features" value={space} onChange={setSpace}
          options={spaces.map((name) => ({ value: name, name }))} />
        {hasLake && (
          <Choice label="What is shown" value={shown}
            onChange={(to) => adjust({ space_shown: to === "lake" ? "lake" : undefined })}
            options={[{ value: "path", name: "This path" }, { value: "lake", name: "All of the lake" }]} />
        )}
      </header>
      {shown === "lake" ? <LakeEffects space={space} /> : subject ? <Along subject={subject} space={space} />
        : error ? <Problem error={error} /> : isLoading ? <Waiting what="Looking up the path" /> : (
          <Empty title="No path is chosen">
            <p>
              This view shows how the features of a program change along a path. Choose a program and take some
              actions in a <a href={hrefOf("session")}>session</a>, or choose a state
              of <a href={hrefOf("lake")}>the lake</a>.
            </p>
          </Empty>
        )}
    </div>
  );
}

function Along({ subject, space }: { subject: Subject; space: string }) {
  const all = useLoad((cancel) => subject.features(cancel), [subject.id]);
  const along = all.value?.[space];
  if (all.error) return <Problem error={all.error} retry={all.reload} />;
  if (all.isLoading) return <Waiting what="Computing the features" />;
  if (!along) return <Empty title={`${space} was not recorded`}><p>Choose other features above.</p></Empty>;
  return <Tracks key={`${subject.id}:${space}`} subject={subject} along={along} space={space} />;
}

function Tracks({ subject, along, space }: { subject: Subject; along: FeaturesAlong; space: string }) {
  const tracks = useMemo(() => changingTracks(along), [along]);
  const [chosen, setChosen] = useState<string[]>(() => tracks.slice(0, 4).map((track) => track.name));
  const [text, setText] = useState("");
  if (tracks.length === 0) {
    return (
      <Empty title="Nothing changes along this path">
        <p>No step of the path changes one of the {along.names.length} numbers of {space}.</p>
      </Empty>
    );
  }
  const toggle = (name: string) =>
    setChosen((before) => (before.includes(name) ? before.filter((one) => one !== name) : [...before, name]));
  const drawn = tracks.filter((track) => chosen.includes(track.name));
  const lines: Line[] = drawn.map((track, at) => ({
    name: track.name, values: track.values, colour: COLOURS[at % COLOURS.length] ?? "accent",
    points: track.values.length < 40, ...(at < COLOURS.length ? {} : { dash: [6, 3] }),
  }));
  const shown = tracks.filter((track) => track.name.toLowerCase().includes(text.toLowerCase()));
  return (
    <>
      <section class="panel lines" aria-label="Chosen features along the path">
        {drawn.length === 0 ? <p class="nothing">Choose features on the right to draw them.</p> : (
          <Chart x={along.values.map((_, at) => at)} isWhole lines={lines}
            xName="step" xLegend={(at) => stepName(subject, at)}
            label={`${drawn.map((track) => track.name).join(", ")} over ${along.values.length - 1} steps`} />
        )}
      </section>
      <section class="panel small" aria-label="Features that change">
        <div class="bar">
          <h2>{space}</h2>
          <span class="dim">{tracks.length} of {along.names.length} change</span>
        </div>
        <input class="search" type="text" value={text} placeholder="Search a feature (/)" aria-label="Search a feature"
          spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} />
        <ul class="tracks">
          {shown.map((track) => (
            <li key={track.name}>
              <SmallTrack track={track} isChosen={drawn.includes(track)} onToggle={() => toggle(track.name)} />
            </li>
          ))}
        </ul>
        {shown.length === 0 && <p class="nothing" role="status">No changing feature matches.</p>}
      </section>
      <section class="panel heat-panel" aria-label="What every step did">
        <div class="bar">
          <h2>What every step did</h2>
          <span class="dim">change of each feature; colours within a column</span>
        </div>
        <StepHeat subject={subject} tracks={tracks} chosen={chosen.at(-1)} onChoose={toggle} />
      </section>
    </>
  );
}

const stepName = ({ steps }: Subject, at: number): string => {
  if (!Number.isInteger(at)) return "";
  return at === 0 ? "start" : `${at} ${steps[at]?.action?.name ?? ""}`;
};

const SMALL = { width: 92, height: 22 };

function SmallTrack({ track, isChosen, onToggle }: { track: Track; isChosen: boolean; onToggle: () => void }) {
  const { values, first, last } = track;
  const known = values.filter((value) => value !== null);
  const low = Math.min(...known);
  const range = Math.max(...known) - low || 1;
  const x = (at: number) => (at / Math.max(values.length - 1, 1)) * (SMALL.width - 4) + 2;
  const y = (value: number) => SMALL.height - 3 - ((value - low) / range) * (SMALL.height - 6);
  const points = values.flatMap((value, at) => (value === null ? [] : [`${x(at).toFixed(1)},${y(value).toFixed(1)}`]));
  return (
    <button type="button" aria-pressed={isChosen} onClick={onToggle} title={`${track.name}: ${first} to ${last}`}>
      <span class="name">{track.name}</span>
      <svg width={SMALL.width} height={SMALL.height} aria-hidden="true"><polyline points={points.join(" ")} /></svg>
      <span class="value">{number(last)}</span>
      <span class="value dim">{signed(last - first)}</span>
    </button>
  );
}

function StepHeat({ subject, tracks, chosen, onChoose }: {
  subject: Subject;
  tracks: Track[];
  chosen: string | undefined;
  onChoose: (name: string) => void;
}) {
  const base = lakeState.value ? { state: lakeState.value } : liveParams();
  const rows = subject.steps.slice(1).map((step, before) => ({
    key: `${before}`,
    name: step.action?.name ?? "",
    index: before + 1,
    cells: tracks.map((track) => change(track.values, before + 1)),
    href: formatRoute("code", null, { ...base, step: String(before + 1) }),
  }));
  return (
    <Heat label="Steps by features" rowName="step" columns={tracks.map((track) => track.name)} rows={rows}
      largest={tracks.map((track) => track.largest)} chosen={chosen} onChoose={onChoose} />
  );
}
