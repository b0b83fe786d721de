// A radial drawing of a transition graph, in time linear in its size: every state at the distance
// from the middle that its shortest path has steps, and within the angle of the state before it.

import type { LakeGraph } from "../wire.ts";

export interface Layout {
  x: Float64Array;
  y: Float64Array;
  depth: Int32Array;
  /** The state before on a shortest path, -1 at a start. */
  parent: Int32Array;
  /** The edge from there, -1 at a start. */
  edge: Int32Array;
  /** The start whose tree a state is in. */
  root: Int32Array;
}

/** The edges that leave every node: those of node `n` are `order[first[n]..first[n + 1]]`. */
function outgoing(count: number, from: readonly number[]): { first: Int32Array; order: Int32Array } {
  const first = new Int32Array(count + 1);
  for (const node of from) first[node + 1]! += 1;
  for (let node = 0; node < count; node += 1) first[node + 1]! += first[node]!;
  const next = first.slice();
  const order = new Int32Array(from.length);
  from.forEach((node, edge) => {
    order[next[node]!] = edge;
    next[node]! += 1;
  });
  return { first, order };
}

export function layOut({ states, starts, edges }: Pick<LakeGraph, "states" | "starts" | "edges">): Layout {
  const count = states.length;
  const { first, order } = outgoing(count, edges.from);
  const depth = new Int32Array(count).fill(-1);
  const parent = new Int32Array(count).fill(-1);
  const edge = new Int32Array(count).fill(-1);
  const root = new Int32Array(count);
  const reached: number[] = [];
  const roots: number[] = [];
  const begin = (node: number) => {
    if (depth[node] !== -1) return;
    depth[node] = 0;
    root[node] = node;
    roots.push(node);
    reached.push(node);
  };
  let at = 0;
  const spread = () => {
    for (; at < reached.length; at += 1) {
      const node = reached[at]!;
      for (let place = first[node]!; place < first[node + 1]!; place += 1) {
        const to = edges.to[order[place]!]!;
        if (depth[to] !== -1) continue;
        depth[to] = depth[node]! + 1;
        parent[to] = node;
        edge[to] = order[place]!;
        root[to] = root[node]!;
        reached.push(to);
      }
    }
  };
  // All starts at once, so that a state that two programs reach is in the tree of the nearer one.
  starts.forEach(begin);
  spread();
  // What no start leads to, if there is such a thing, begins trees of its own.
  for (let node = 0; node < count; node += 1) {
    begin(node);
    spread();
  }
  const { x, y } = place(reached, roots, depth, parent);
  return { x, y, depth, parent, edge, root };
}

function place(reached: readonly number[], roots: readonly number[], depth: Int32Array, parent: Int32Array) {
  const count = reached.length;
  // How much angle a tree wants: its leaves.
  const weight = new Float64Array(count);
  for (let at = count - 1; at >= 0; at -= 1) {
    const node = reached[at]!;
    if (weight[node] === 0) weight[node] = 1;
    if (parent[node]! >= 0) weight[parent[node]!]! += weight[node]!;
  }
  const total = roots.reduce((sum, node) => sum + Math.sqrt(weight[node]!), 0);
  const from = new Float64Array(count);
  const width = new Float64Array(count);
  const used = new Float64Array(count);
  const x = new Float64Array(count);
  const y = new Float64Array(count);
  const isAlone = roots.length === 1;
  let angle = 0;
  for (const node of reached) {
    const before = parent[node]!;
    if (before < 0) {
      // Small programs would vanish beside large ones.
      width[node] = (Math.sqrt(weight[node]!) / total) * 2 * Math.PI;
      from[node] = angle;
      angle += width[node];
    } else {
      width[node] = (weight[node]! / weight[before]!) * width[before]!;
      from[node] = from[before]! + used[before]!;
      used[before]! += width[node];
    }
    const middle = from[node]! + width[node]! / 2;
    const radius = depth[node]! + (isAlone ? 0 : Math.max(2, roots.length / 8));
    x[node] = radius * Math.cos(middle);
    y[node] = radius * Math.sin(middle);
  }
  return { x, y };
}

/** The nodes of the shortest path from a start, both included. */
export function pathOf({ parent }: Layout, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at >= 0; at = parent[at]!) path.push(at);
  return path.reverse();
}

/** What a state costs compared with the start of its tree. */
export function ratios({ root }: Layout, costs: readonly (number | null)[]): (number | null)[] {
  return costs.map((cost, node) => {
    const start = costs[root[node]!];
    return cost == null || start == null || start === 0 ? null : cost / start;
  });
}
