// The lines of a path: its cost and reward, and the costs of the compiler's own pipelines.

import type { Line } from "../parts/line.ts";
import type { Session, SessionNode } from "../wire.ts";

/** What is drawn of a path. A path without steps has room for one, so that the baselines are lines there too. */
export function pathLines(session: Pick<Session, "cost_name" | "baselines">, path: readonly SessionNode[]) {
  const x = Array.from({ length: Math.max(path.length, 2) }, (_, at) => at);
  const along = (value: (node: SessionNode) => number | null) => x.map((at) => (path[at] ? value(path[at]) : null));
  const level = (name: string, cost: number | null, colour: string): Line[] =>
    cost === null ? [] : [{ name, values: x.map(() => cost), colour, dash: [5, 4] }];
  const lines: Line[] = [
    { name: session.cost_name, values: along((node) => node.cost), colour: "accent", points: path.length < 60, kind: "line" },
    ...level("-Oz", session.baselines.Oz, "warm"),
    ...level("-O3", session.baselines.O3, "violet"),
    { name: "cumulative reward", values: along((node) => node.cumulative_reward ?? (node.parent === null ? 0 : null)),
      colour: "good", scale: "right" },
  ];
  return { x, lines };
}
