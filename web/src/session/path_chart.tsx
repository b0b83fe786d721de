// Cost and cumulative reward along the path, with the costs of the compiler's own pipelines.

import { useMemo } from "preact/hooks";
import { Chart, type Line } from "../parts/chart.tsx";
import type { Session, SessionNode } from "../wire.ts";

export function PathChart({ session, path, onPick }: {
  session: Session;
  path: readonly SessionNode[];
  onPick: (node: number) => void;
}) {
  const { x, lines } = useMemo(() => {
    const level = (name: string, cost: number | null, colour: string): Line[] =>
      cost === null ? [] : [{ name, values: path.map(() => cost), colour, dash: [5, 4] }];
    const made: Line[] = [
      { name: session.cost_name, values: path.map((node) => node.cost), colour: "accent", points: path.length < 60,
        kind: "line" },
      ...level("-Oz", session.baselines.Oz, "warm"),
      ...level("-O3", session.baselines.O3, "violet"),
      { name: "cumulative reward", values: path.map((node) => node.cumulative_reward ?? (node.parent === null ? 0 : null)),
        colour: "good", scale: "right" },
    ];
    return { x: path.map((_, at) => at), lines: made };
  }, [session, path]);
  const last = path.at(-1);
  return (
    <Chart x={x} isWhole lines={lines} onPick={(at) => path[at] && onPick(path[at].id)}
      label={`${session.cost_name} and cumulative reward over ${path.length - 1} steps, to ${last?.cost ?? "?"}`} />
  );
}
