// A live session: what was tried as a tree, what can be tried next, and what came of it.

import { signal } from "@preact/signals";
import { against, number, plural, programName, signed } from "../format.ts";
import { focusOn, useKeys } from "../keys.ts";
import { Copy, Figure, Problem } from "../parts/basics.tsx";
import {
  actionsOf, apply, applyAll, busy, hrefOf, leave, path, select, selected, session, sessionError, stop, tree, TRYING_ALL, undo,
} from "../store.ts";
import { bestOf } from "../tree.ts";
import type { Session, SessionNode } from "../wire.ts";
import { ActionPicker } from "./actions.tsx";
import { Chooser } from "./chooser.tsx";
import { PathChart } from "./path_chart.tsx";
import { TriedTree } from "./tried_tree.tsx";

const isCompact = signal(false);

export function SessionView() {
  const present = session.value;
  const node = selected.value;
  useKeys({
    a: () => focusOn(".action-search"),
    "/": () => focusOn(present ? ".action-search" : "main .search"),
    u: () => void undo(),
    n: leave,
  });
  if (!present || !node || !tree.value) return <Chooser />;
  return (
    <div class="session">
      <Summary session={present} node={node} />
      <section class="panel tried" aria-label="What was tried">
        <div class="bar">
          <h2>Tried</h2>
          <span class="dim">{plural(present.nodes.length - 1, "step")}</span>
          <span class="grow" />
          <label class="check" title="Leave out steps without change, and all but the eight best ends of a node">
            <input type="checkbox" checked={isCompact.value}
              onChange={(event) => (isCompact.value = event.currentTarget.checked)} />
            Compact
          </label>
          <button type="button" onClick={() => void undo()} disabled={node.parent === null}
            title="Remove this node and what is below it (u)">
            Undo
          </button>
        </div>
        <Problem error={sessionError.value} />
        <TriedTree tree={tree.value} selected={node.id} path={path.value.map((step) => step.id)}
          best={bestOf(present.nodes)?.id ?? null} isCompact={isCompact.value}
          onSelect={select} onUndo={() => void undo()} />
      </section>
      <section class="panel along" aria-label="Along the path">
        <PathChart session={present} path={path.value} onPick={select} />
      </section>
      <aside class="side">
        <section class="panel picker" aria-label="Next action">
          <div class="bar">
            <h2>Next action</h2>
            <span class="grow" />
            {busy.value?.startsWith(TRYING_ALL) ? (
              <>
                <span class="dim" role="status">{busy.value}</span>
                <button type="button" onClick={stop}>Stop</button>
              </>
            ) : (
              <button type="button" onClick={tryAll} disabled={busy.value !== null}
                title="Try each of these actions once from this state, and rank them">
                Try all
              </button>
            )}
          </div>
          <ActionPicker actions={actionsOf(present.action_space)} tried={tree.value.children.get(node.id) ?? []}
            onTake={(action) => void apply(action)} />
        </section>
        <section class="panel steps" aria-label="Path">
          <div class="bar">
            <h2>Path</h2>
            <span class="dim">{plural(node.depth, "step")}</span>
            <span class="grow" />
            <Copy text={location.href} what="a link that opens a fork of this session, in this state" label="Copy link" />
          </div>
          <PathList path={path.value} selected={node.id} />
        </section>
      </aside>
    </div>
  );
}

/** Most actions change nothing, and would fill the tree. */
function tryAll(): void {
  isCompact.value = true;
  void applyAll();
}

function Summary({ session: { benchmark, action_space, reward_space, cost_name, baselines, nodes }, node }: {
  session: Session;
  node: SessionNode;
}) {
  const best = bestOf(nodes);
  const tone = (cost: number | null, reference: number | null) =>
    cost === null || reference === null || cost === reference ? undefined : cost < reference ? "good" : "bad";
  return (
    <header class="summary">
      <div class="what">
        <h2 class="title" title={benchmark}>{programName(benchmark)}</h2>
        <p class="dim">{action_space} · {reward_space}</p>
        <button type="button" onClick={leave} title="Choose another program (n)">Other program</button>
      </div>
      <dl class="figures">
        <Figure name={cost_name} title="The cost of the chosen state">{number(node.cost)}</Figure>
        <Figure name="against -Oz" tone={tone(node.cost, baselines.Oz)} title={`-Oz costs ${number(baselines.Oz)}`}>
          {against(node.cost, baselines.Oz)}
        </Figure>
        <Figure name="against -O3" tone={tone(node.cost, baselines.O3)} title={`-O3 costs ${number(baselines.O3)}`}>
          {against(node.cost, baselines.O3)}
        </Figure>
        <Figure name="untouched" title="The cost of the program before any action">{number(baselines.O0)}</Figure>
        <Figure name="cumulative reward">{signed(node.cumulative_reward, 4)}</Figure>
        {best && (
          <div class="figure">
            <dt>best here</dt>
            <dd>
              <button type="button" class="link" onClick={() => select(best.id)} title="Go to the best state">
                {number(best.cost)} <span class={tone(best.cost, baselines.Oz)}>{against(best.cost, baselines.Oz)}</span>
              </button>
            </dd>
          </div>
        )}
      </dl>
      <nav class="onward" aria-label="This state elsewhere">
        <a href={hrefOf("code")}>Code</a>
        <a href={hrefOf("features")}>Features</a>
      </nav>
    </header>
  );
}

function PathList({ path: steps, selected: id }: { path: readonly SessionNode[]; selected: number }) {
  return (
    <ol class="path-list">
      {steps.map((step) => (
        <li key={step.id}>
          <button type="button" aria-current={step.id === id ? "step" : undefined} onClick={() => select(step.id)}
            class={step.is_changed || step.parent === null ? "" : "unchanged"}>
            <span class="index">{step.depth}</span>
            <span class="name">{step.action?.name ?? "start"}</span>
            <span class={`value ${(step.reward ?? 0) > 0 ? "good" : (step.reward ?? 0) < 0 ? "bad" : "dim"}`}>
              {step.parent === null ? "" : signed(step.reward)}
            </span>
            <span class="value">{number(step.cost)}</span>
          </button>
        </li>
      ))}
    </ol>
  );
}
