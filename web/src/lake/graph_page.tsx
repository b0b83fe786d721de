// The graph of the lake, and the card of the state that is chosen in it.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api.ts";
import { number, plural, short } from "../format.ts";
import { focusOn, useKeys } from "../keys.ts";
import { Choice, Problem, Waiting } from "../parts/basics.tsx";
import { useLoad } from "../parts/load.ts";
import { adjust, route } from "../store.ts";
import { colours } from "../theme.ts";
import type { LakeGraph } from "../wire.ts";
import type { Scale } from "./palette.ts";
import { draw, type ColourBy, type Picture } from "./picture.ts";
import { ProgramChoice, usePrograms } from "./program_choice.tsx";
import { StateCard } from "./state_card.tsx";

const STATES_MAX = 100_000;
/** With more transitions than this, those off the shortest paths are only drawn when asked for. */
const EDGES_MAX = 30_000;

export function GraphPage() {
  const { benchmark = "", state } = route.value.params;
  const programs = usePrograms();
  const [colourBy, setColourBy] = useState<ColourBy>("cost");
  const [allEdges, setAllEdges] = useState<boolean | null>(null);
  const graph = useLoad((cancel) => api.graph(benchmark, STATES_MAX, cancel), [benchmark]);
  const isAll = allEdges ?? (graph.value !== null && graph.value.edges.from.length <= EDGES_MAX);
  useKeys({ "/": () => focusOn(".state-search") });
  return (
    <div class="graph-page">
      <section class="panel graph-panel" aria-label="Graph">
        <div class="bar">
          <ProgramChoice programs={programs} value={benchmark}
            onChange={(chosen) => adjust({ benchmark: chosen || undefined, state: undefined })} />
          <Choice label="Colour by" value={colourBy} onChange={setColourBy}
            options={[{ value: "cost", name: "Cost" }, { value: "depth", name: "Depth" }]} />
          <label class="check">
            <input type="checkbox" checked={isAll} onChange={(event) => setAllEdges(event.currentTarget.checked)} />
            All transitions
          </label>
          <span class="grow" />
          {graph.value && <StateSearch graph={graph.value} />}
        </div>
        <Problem error={graph.error} retry={graph.reload} />
        {graph.isLoading && <Waiting what="Fetching the graph" />}
        {graph.value && graph.value.states.length === 0 && (
          <p class="nothing">
            The graph is empty. If something was recorded, run <code>steplake dedup</code> and open this page again.
          </p>
        )}
        {graph.value && graph.value.states.length > 0 && (
          <GraphPicture graph={graph.value} colourBy={colourBy} allEdges={isAll} state={state} />
        )}
      </section>
      <aside class="panel card-panel" aria-label="State">
        {state ? <StateCard key={state} id={state} /> : (
          <div class="nothing">
            <h2>No state is chosen</h2>
            <p>
              Click one in the graph, or search one by the first digits of its id. A start is a large dot; the further
              out a state is, the more steps lead to it.
            </p>
          </div>
        )}
      </aside>
    </div>
  );
}

function StateSearch({ graph }: { graph: LakeGraph }) {
  const [text, setText] = useState("");
  const [isUnknown, setUnknown] = useState(false);
  const find = () => {
    const wanted = text.trim().toLowerCase();
    const found = wanted === "" ? undefined : graph.states.find((state) => state.startsWith(wanted));
    setUnknown(found === undefined && wanted !== "");
    if (found) adjust({ state: found });
  };
  return (
    <form class="state-find" onSubmit={(event) => {
      event.preventDefault();
      find();
    }}>
      {isUnknown && <span class="bad" role="alert">not in this graph</span>}
      <input class="search state-search" type="text" value={text} placeholder="State id (/)" aria-label="Search a state by its id"
        spellcheck={false} onInput={(event) => {
          setText(event.currentTarget.value);
          setUnknown(false);
        }} />
    </form>
  );
}

function GraphPicture({ graph, colourBy, allEdges, state }: {
  graph: LakeGraph;
  colourBy: ColourBy;
  allEdges: boolean;
  state: string | undefined;
}) {
  const place = useRef<HTMLDivElement>(null);
  const picture = useRef<Picture | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const [scale, setScale] = useState<Scale | null>(null);
  const clicked = useRef(-1);
  const numbers = useMemo(() => new Map(graph.states.map((id, node) => [id, node])), [graph]);
  const chosen = state === undefined ? -1 : (numbers.get(state) ?? -1);

  useEffect(() => {
    if (!place.current) return undefined;
    try {
      const made = draw(place.current, graph, {
        colourBy,
        allEdges,
        onHover: setHovered,
        onClick: (node) => {
          clicked.current = node;
          adjust({ state: graph.states[node] });
        },
      });
      picture.current = made;
      setScale(made.scale);
      setProblem(null);
      return () => {
        picture.current = null;
        made.destroy();
      };
    } catch (error) {
      setProblem(new Error(`This browser cannot draw the graph: ${error instanceof Error ? error.message : String(error)}. It needs WebGL 2.`));
      return undefined;
    }
  }, [graph, colourBy, allEdges, colours.value]);
  useEffect(() => picture.current?.mark(chosen, chosen !== clicked.current), [chosen, scale]);

  const onKeyDown = (event: KeyboardEvent) => {
    const keys: Record<string, (() => void) | undefined> = {
      "+": () => picture.current?.zoom(1.5),
      "=": () => picture.current?.zoom(1.5),
      "-": () => picture.current?.zoom(1 / 1.5),
      0: () => picture.current?.fit(),
      ArrowLeft: () => picture.current?.move(-0.1, 0),
      ArrowRight: () => picture.current?.move(0.1, 0),
      ArrowUp: () => picture.current?.move(0, 0.1),
      ArrowDown: () => picture.current?.move(0, -0.1),
    };
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  };
  const { states, edges, is_cut: isCut } = graph;
  return (
    <>
      <Problem error={problem} />
      <div class="picture" tabIndex={0} role="group" onKeyDown={onKeyDown}
        aria-label={`Graph of ${plural(states.length, "state")} and ${plural(edges.from.length, "transition")}. Plus and minus zoom, arrows move.`}>
        <div class="sigma" ref={place} />
        <div class="zoom">
          <button type="button" aria-label="Zoom in" title="+" onClick={() => picture.current?.zoom(1.5)}>+</button>
          <button type="button" aria-label="Zoom out" title="-" onClick={() => picture.current?.zoom(1 / 1.5)}>−</button>
          <button type="button" aria-label="Show all" title="0" onClick={() => picture.current?.fit()}>⤢</button>
        </div>
        <Legend graph={graph} colourBy={colourBy} scale={scale} />
        {hovered !== null && picture.current && <Hovered graph={graph} node={hovered} picture={picture.current} />}
        <p class="counts dim">
          {plural(states.length, "state")}, {plural(edges.from.length, "transition")}
          {isCut && `; only the first ${number(STATES_MAX)} states: choose a program`}
        </p>
      </div>
    </>
  );
}

function Legend({ graph, colourBy, scale }: { graph: LakeGraph; colourBy: ColourBy; scale: Scale | null }) {
  if (!scale) return null;
  const text = (value: number) => (colourBy === "cost" ? `${Math.round(value * 100)}%` : number(Math.round(value)));
  return (
    <div class="legend">
      <span>{colourBy === "cost" ? `${graph.cost_name}, share of the start` : "steps from a start"}</span>
      <span class="scale">
        {text(scale.low)} <i style={{ background: scale.gradient }} /> {text(scale.high)}
      </span>
    </div>
  );
}

function Hovered({ graph, node, picture }: { graph: LakeGraph; node: number; picture: Picture }) {
  const action = graph.edges.action[picture.layout.edge[node] ?? -1];
  return (
    <div class="hovered">
      <strong class="mono">{short(graph.states[node] ?? "")}</strong>
      <span>{graph.cost_name} {number(graph.costs[node])}</span>
      <span class="dim">
        {picture.layout.depth[node] === 0 ? "a start" : `step ${picture.layout.depth[node]}, by ${graph.action_names[action ?? -1] ?? "?"}`}
      </span>
    </div>
  );
}

