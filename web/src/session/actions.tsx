// The actions of the space, with what they did in the chosen state where that was tried.

import { number, signed } from "../format.ts";
import { Finder } from "../parts/finder.tsx";
import type { Action, SessionNode } from "../wire.ts";

export function ActionPicker({ actions, tried, onTake }: {
  actions: readonly Action[];
  tried: readonly SessionNode[];
  onTake: (action: number) => void;
}) {
  const results = new Map(tried.flatMap((node) => (node.action ? [[node.action.index, node] as const] : [])));
  // What was tried comes first, best first.
  const worth = (action: Action) => results.get(action.index)?.reward ?? Number.NEGATIVE_INFINITY;
  const ranked = [...actions].sort((a, b) =>
    Number(results.has(b.index)) - Number(results.has(a.index)) || worth(b) - worth(a) || a.index - b.index);
  return (
    <Finder label="Search an action" placeholder="Search an action, Enter takes it (a)" inputClass="action-search"
      items={ranked} keyOf={(action) => String(action.index)} nameOf={(action) => action.name}
      onTake={(action) => onTake(action.index)}
      rowClass={(action) => (results.has(action.index) ? "tried" : "")}
      row={(action) => {
        const node = results.get(action.index);
        return (
          <>
            <span class="name" title={action.description ?? action.name}>{action.name}</span>
            {node && <Result node={node} />}
          </>
        );
      }} />
  );
}

function Result({ node }: { node: SessionNode }) {
  if (node.failure) return <span class="value bad">{node.failure.kind}</span>;
  if (!node.is_changed) return <span class="value dim">no change</span>;
  const tone = (node.reward ?? 0) > 0 ? "good" : (node.reward ?? 0) < 0 ? "bad" : "dim";
  return (
    <>
      <span class={`value ${tone}`}>{signed(node.reward)}</span>
      <span class="value">{number(node.cost)}</span>
    </>
  );
}

