// The chain of passes of a path.

import { useEffect, useRef, useState } from "preact/hooks";
import { fit, number } from "../format.ts";
import type { Step } from "../subject.ts";

export function StepList({ steps, chosen, onChoose, isHiding, onHide }: {
  steps: readonly Step[];
  chosen: number;
  onChoose: (at: number) => void;
  isHiding: boolean;
  onHide: (hide: boolean) => void;
}) {
  const [text, setText] = useState("");
  const list = useRef<HTMLOListElement>(null);
  const shown = steps
    .map((step, at) => ({ step, at }))
    .filter(({ step, at }) => at === 0 || at === chosen || !isHiding || step.isChanged)
    .filter(({ step, at }) => text === "" || (at > 0 && fit(step.action?.name ?? "", text) !== null));
  const unchanged = steps.filter((step, at) => at > 0 && !step.isChanged).length;
  useEffect(() => {
    list.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  return (
    <section class="panel steps" aria-label="Passes of the path">
      <div class="bar">
        <h2>Passes</h2>
        <span class="dim">{number(steps.length - 1)}</span>
      </div>
      <input class="search step-search" type="text" placeholder="Search a pass (/)" aria-label="Search a pass"
        value={text} spellcheck={false} onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && shown[0]) onChoose(shown[0].at);
          if (event.key !== "Escape") return;
          setText("");
          event.currentTarget.blur();
        }} />
      <label class="check hide" title="h">
        <input type="checkbox" checked={isHiding} onChange={(event) => onHide(event.currentTarget.checked)} />
        Hide {number(unchanged)} without change
      </label>
      <ol class="path-list" ref={list}>
        {shown.map(({ step, at }) => (
          <li key={at}>
            <button type="button" aria-current={at === chosen ? "step" : undefined} onClick={() => onChoose(at)}
              class={at === 0 || step.isChanged ? "" : "unchanged"} title={step.action?.name}>
              <span class="index">{at}</span>
              <span class="name">{step.action?.name ?? "start"}</span>
              <span class="value">{at > 0 && !step.isChanged ? "=" : number(step.cost)}</span>
            </button>
          </li>
        ))}
      </ol>
      {shown.length === 0 && <p class="nothing" role="status">No pass of this path matches.</p>}
    </section>
  );
}
