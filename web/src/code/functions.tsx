// The functions of a program, those that a step changed first.

import { Finder } from "../parts/finder.tsx";
import type { Diff, FunctionChange } from "../wire.ts";

const size = (one: FunctionChange) => one.added + one.removed;

/** Changed ones first, by how much; then the equal ones in their order. What is outside comes with its like. */
export function sortFunctions({ functions, module }: Diff): FunctionChange[] {
  const all = [...functions, module];
  const changed = all.filter((one) => one.change !== "same").sort((a, b) => size(b) - size(a));
  return [...changed, ...all.filter((one) => one.change === "same")];
}

export function FunctionList({ functions, chosen, onChoose }: {
  functions: FunctionChange[];
  chosen: FunctionChange | undefined;
  onChoose: (one: FunctionChange) => void;
}) {
  return (
    <Finder label="Search a function" placeholder="Search a function" items={functions} taken={chosen?.name}
      keyOf={(one) => one.name} nameOf={(one) => one.name || "outside of functions"} onTake={onChoose}
      rowClass={(one) => one.change}
      row={(one) => (
        <>
          <span class="name" title={one.name}>{one.name || <em>outside of functions</em>}</span>
          {one.change === "same" ? <span class="value dim">{one.lines_after}</span> : (
            <span class="value">
              {one.change === "changed" ? "" : `${one.change} `}
              <span class="good">+{one.added}</span> <span class="bad">−{one.removed}</span>
            </span>
          )}
        </>
      )} />
  );
}
