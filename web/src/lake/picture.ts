// The lake's graph on the screen, drawn by sigma.

import { MultiUndirectedGraph } from "graphology";
import Sigma from "sigma";
import { EdgeLineProgram, NodePointProgram } from "sigma/rendering";
import { colour } from "../theme.ts";
import type { LakeGraph } from "../wire.ts";
import { layOut, pathOf, ratios, type Layout } from "./layout.ts";
import { costScale, depthScale, type Scale } from "./palette.ts";

export type ColourBy = "cost" | "depth";

export interface PictureOptions {
  colourBy: ColourBy;
  /** Whether all transitions are drawn, or only those of shortest paths. */
  allEdges: boolean;
  onHover: (node: number | null) => void;
  onClick: (node: number) => void;
}

export interface Picture {
  layout: Layout;
  scale: Scale;
  /** Shows a state and its shortest path; -1 shows none. */
  mark: (node: number, isMoving: boolean) => void;
  /** Where a state is on the screen, from the picture's corner. */
  placeOf: (node: number) => { x: number; y: number };
  zoom: (by: number) => void;
  move: (x: number, y: number) => void;
  fit: () => void;
  destroy: () => void;
}

export function draw(place: HTMLElement, graph: LakeGraph, options: PictureOptions): Picture {
  const layout = layOut(graph);
  const values = options.colourBy === "cost" ? ratios(layout, graph.costs) : [...layout.depth];
  const scale = options.colourBy === "cost" ? costScale(values) : depthScale([...layout.depth]);
  const sigma = new Sigma(asGraphology(graph, layout, values, scale, options.allEdges), place, {
    defaultNodeType: "point",
    nodeProgramClasses: { point: NodePointProgram },
    defaultEdgeType: "line",
    edgeProgramClasses: { line: EdgeLineProgram },
    renderLabels: false,
    hideEdgesOnMove: graph.edges.from.length > 50_000,
    minCameraRatio: 0.002,
    maxCameraRatio: 3,
    stagePadding: 24,
    defaultDrawNodeHover: (context, { x, y, size }) => ring(context, x, y, size + 4, colour("text")),
    allowInvalidContainer: true,
  });
  sigma.on("enterNode", ({ node }) => options.onHover(Number(node)));
  sigma.on("leaveNode", () => options.onHover(null));
  sigma.on("clickNode", ({ node }) => options.onClick(Number(node)));
  return { layout, scale, ...controls(sigma, layout, place) };
}

function asGraphology(
  graph: LakeGraph, layout: Layout, values: readonly (number | null)[], scale: Scale, allEdges: boolean,
): MultiUndirectedGraph {
  const drawn = new MultiUndirectedGraph();
  const unknown = colour("dim");
  const starts = new Set(graph.starts);
  const size = graph.states.length > 20_000 ? 1.6 : graph.states.length > 3000 ? 2.4 : 3.2;
  graph.states.forEach((_, node) => {
    const value = values[node] ?? null;
    drawn.addNode(node, {
      x: layout.x[node], y: layout.y[node], size: starts.has(node) ? size * 1.7 : size,
      color: value === null ? unknown : scale.colourOf(value),
    });
  });
  const color = colour("edge");
  for (let edge = 0; edge < graph.edges.from.length; edge += 1) {
    const to = graph.edges.to[edge]!;
    if (allEdges || layout.edge[to] === edge) drawn.addEdgeWithKey(edge, graph.edges.from[edge], to, { color, size: 0.5 });
  }
  return drawn;
}

function ring(context: CanvasRenderingContext2D, x: number, y: number, radius: number, stroke: string): void {
  context.beginPath();
  context.arc(x, y, radius, 0, Math.PI * 2);
  context.lineWidth = 2.5;
  context.strokeStyle = stroke;
  context.stroke();
}

function controls(sigma: Sigma, layout: Layout, place: HTMLElement): Omit<Picture, "layout" | "scale"> {
  const camera = sigma.getCamera();
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const animation = { duration: isCalm ? 0 : 200 };
  const placeOf = (node: number) => sigma.graphToViewport({ x: layout.x[node]!, y: layout.y[node]! });

  // The marked path lies on a canvas of its own, so that marking one touches nothing of the rest.
  const above = document.createElement("canvas");
  above.className = "marked";
  place.append(above);
  let marked: number[] = [];
  const accent = colour("accent");
  const drawMarked = () => {
    const { width, height } = sigma.getDimensions();
    const ratio = devicePixelRatio;
    Object.assign(above, { width: width * ratio, height: height * ratio });
    const context = above.getContext("2d");
    const last = marked.at(-1);
    if (!context || last === undefined) return;
    context.scale(ratio, ratio);
    context.beginPath();
    for (const node of marked) {
      const { x, y } = placeOf(node);
      context.lineTo(x, y);
    }
    Object.assign(context, { lineWidth: 3, strokeStyle: accent, lineJoin: "round", globalAlpha: 0.8 });
    context.stroke();
    context.globalAlpha = 1;
    const { x, y } = placeOf(last);
    ring(context, x, y, 9, accent);
  };
  sigma.on("afterRender", drawMarked);
  return {
    mark(node, isMoving) {
      marked = node < 0 ? [] : pathOf(layout, node);
      drawMarked();
      const shown = node >= 0 ? sigma.getNodeDisplayData(String(node)) : undefined;
      if (shown && isMoving) void camera.animate({ x: shown.x, y: shown.y, ratio: Math.min(camera.ratio, 0.6) }, animation);
    },
    placeOf,
    zoom: (by) => void camera.animate({ ratio: camera.ratio / by }, animation),
    move: (x, y) => void camera.animate({ x: camera.x + x * camera.ratio, y: camera.y + y * camera.ratio }, animation),
    fit: () => void camera.animatedReset(animation),
    destroy() {
      sigma.kill();
      above.remove();
    },
  };
}
