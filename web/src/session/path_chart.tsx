// Cost and cumulative reward along the path, with the costs of the compiler's own pipelines.

import { useMemo } from "preact/hooks";
import { number } from "../format.ts";
import { Chart } from "../parts/chart.tsx";
import type { Session, SessionNode } from "../wire.ts";
import { pathLines } from "./path_lines.ts";

export function PathChart({ session, path, onPick }: {
  session: Session;
  path: readonly SessionNode[];
  onPick: (node: number) => void;
}) {
  const { x, lines } = useMemo(() => pathLines(session, path), [session, path]);
  const last = path.at(-1);
  const baselines = (["Oz", "O3"] as const).flatMap((name) => {
    const cost = session.baselines[name];
    return cost === null ? [] : [`, -${name} ${number(cost)}`];
  });
  return (
    <Chart x={x} isWhole lines={lines} onPick={(at) => path[at] && onPick(path[at].id)}
      label={`${session.cost_name} and cumulative reward over ${path.length - 1} steps, to ${number(last?.cost)}${baselines.join("")}`} />
  );
}
