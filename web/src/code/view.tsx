// The code before and after a step of a path, function by function.

import { signal, type Signal } from "@preact/signals";
import { useMemo, useRef, useState } from "preact/hooks";
import { against, number, plural, programName } from "../format.ts";
import { focusOn, useKeys } from "../keys.ts";
import { Choice, Copy, Empty, Problem, Waiting } from "../parts/basics.tsx";
import { useLoad } from "../parts/load.ts";
import { adjust, hrefOf, route } from "../store.ts";
import { useSubject, type Step, type Subject } from "../subject.ts";
import type { FunctionChange } from "../wire.ts";
import type { Alignment } from "./align.ts";
import { FunctionList, sortFunctions } from "./functions.tsx";
import { Merge, type MergeControl } from "./merge.tsx";
import { StepList } from "./step_list.tsx";

const isHidingUnchanged = signal(false);
const isFolding = signal(true);
const isWrapping = signal(true);
const isIgnoringNumbers = signal(true);

export function CodeView() {
  const { subject, error, isLoading } = useSubject();
  if (subject) return <CodeOf key={subject.id} subject={subject} />;
  if (error) return <div class="centred"><Problem error={error} /></div>;
  if (isLoading) return <Waiting what="Looking up the path" />;
  return (
    <Empty title="No path is chosen">
      <p>
        This view compares the code before and after each pass of a path. Choose a program and take some actions in a{" "}
        <a href={hrefOf("session")}>session</a>, or choose a state of <a href={hrefOf("lake")}>the lake</a> and open
        its code.
      </p>
    </Empty>
  );
}

/** The step that is shown: the one that the address names, or the last that changed something. */
function chosenStep(steps: readonly Step[], wanted: string | undefined): number {
  const named = Number(wanted);
  if (wanted !== undefined && Number.isInteger(named) && named >= 0 && named < steps.length) return named;
  const changed = steps.findLastIndex((step, at) => at > 0 && step.isChanged);
  return changed > 0 ? changed : steps.length - 1;
}

function CodeOf({ subject }: { subject: Subject }) {
  const { steps } = subject;
  const { params } = route.value;
  const at = chosenStep(steps, params["step"]);
  const isFromStart = params["base"] === "start";
  const after = steps[at] as Step;
  const before = steps[isFromStart ? 0 : Math.max(at - 1, 0)] as Step;
  const control = useRef<MergeControl | null>(null);

  const choose = (step: number) => adjust({ step: String(step) });
  const move = (by: number) => {
    for (let to = at + by; to >= 0 && to < steps.length; to += by) {
      if (to === 0 || steps[to]?.isChanged || !isHidingUnchanged.value) return choose(to);
    }
  };
  const setBase = (base: "step" | "start") => adjust({ base: base === "start" ? "start" : undefined });
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    "]": () => control.current?.next(),
    "[": () => control.current?.previous(),
    h: () => (isHidingUnchanged.value = !isHidingUnchanged.value),
    b: () => setBase(isFromStart ? "step" : "start"),
    c: () => document.getElementById("copy-command")?.click(),
    "/": () => focusOn(".step-search"),
  });
  return (
    <div class="code">
      <header class="summary">
        <div class="what">
          <h2 class="title" title={subject.benchmark}>{programName(subject.benchmark)}</h2>
          <p class="dim">
            {subject.from === "lake" ? "recorded path" : "live path"} · {plural(steps.length - 1, "step")}
          </p>
        </div>
        <p class="shown">
          {at === 0 ? "The program as it was" : (
            <>
              Step {at}: <strong class="mono">{after.action?.name}</strong>
              <span class="dim">
                {" "}{subject.costName} {number(before.cost)} → {number(after.cost)} ({against(after.cost, before.cost)})
              </span>
            </>
          )}
        </p>
        <span class="grow" />
        <Choice label="Compare with" value={isFromStart ? "start" : "step"} onChange={setBase}
          options={[{ value: "step", name: "Step before" }, { value: "start", name: "Start" }]} />
      </header>
      <StepList steps={steps} chosen={at} onChoose={choose} isHiding={isHidingUnchanged.value}
        onHide={(hide) => (isHidingUnchanged.value = hide)} />
      <Comparison subject={subject} before={before} after={after} control={control} />
      <CommandPanel subject={subject} />
    </div>
  );
}

function CommandPanel({ subject }: { subject: Subject }) {
  const command = useLoad((cancel) => subject.command(cancel), [subject.id]);
  const { opt, opt_all: all, note } = command.value ?? { opt: "" };
  const isShort = isHidingUnchanged.value || !all;
  const text = isShort ? opt : all;
  return (
    <section class="panel command" aria-label="Command">
      <div class="bar">
        <h2>The path as a command</h2>
        <span class="dim note" title={note ?? undefined}>{isShort && all && all !== opt ? "without the passes that changed nothing. " : ""}{note}</span>
        <span class="grow" />
        {command.value && <Copy id="copy-command" text={text} what="the command" />}
      </div>
      {command.value && <pre tabIndex={0} aria-label="Command of the path">{text}</pre>}
      <Problem error={command.error} retry={command.reload} />
    </section>
  );
}

function Comparison({ subject, before, after, control }: {
  subject: Subject;
  before: Step;
  after: Step;
  control: { current: MergeControl | null };
}) {
  const pair = `${subject.id}:${before.key}:${after.key}`;
  const diff = useLoad((cancel) => subject.diff(before, after, cancel), [pair]);
  const wanted = route.value.params["function"];
  const functions = useMemo(() => (diff.value ? sortFunctions(diff.value) : []), [diff.value]);
  const chosen = functions.find((one) => nameInLink(one) === wanted) ?? functions[0];
  const choose = (one: FunctionChange) => adjust({ function: nameInLink(one) });
  return (
    <>
      <section class="panel functions" aria-label="Functions">
        <div class="bar">
          <h2>Functions</h2>
          <span class="dim">{diff.value ? `${number(functions.filter((one) => one.change !== "same").length)} changed` : ""}</span>
        </div>
        <Problem error={diff.error} retry={diff.reload} />
        {diff.isLoading ? <Waiting what="Comparing" /> : (
          diff.value && <FunctionList functions={functions} chosen={chosen} onChoose={choose} />
        )}
      </section>
      <TextPanel subject={subject} before={before} after={after} pair={pair} chosen={chosen} control={control} />
    </>
  );
}

/** The part outside of functions has no name, and its own word in a link. */
const OUTSIDE = "(module)";
const nameInLink = (one: FunctionChange): string => (one.name === "" ? OUTSIDE : one.name);

function TextPanel({ subject, before, after, pair, chosen, control }: {
  subject: Subject;
  before: Step;
  after: Step;
  pair: string;
  chosen: FunctionChange | undefined;
  control: { current: MergeControl | null };
}) {
  const text = useLoad(
    chosen ? (cancel) => subject.diffText(before, after, chosen.name, cancel) : null, [pair, chosen?.name], false);
  const [alignment, setAlignment] = useState<Alignment | null>(null);
  return (
    <section class="panel text" aria-label="Code" aria-busy={text.isLoading}>
      <div class="bar">
        <h2 class="mono">{chosen ? (chosen.name === "" ? "outside of functions" : `@${chosen.name}`) : "Code"}</h2>
        {chosen && <Counts of={chosen} alignment={alignment} />}
        <span class="grow" />
        <Check label="Ignore value numbers" title="A removed instruction renumbers all values after it: show such lines as equal"
          of={isIgnoringNumbers} />
        <Check label="Fold equal lines" of={isFolding} />
        <Check label="Wrap" of={isWrapping} />
        <button type="button" onClick={() => control.current?.search()} title="Ctrl F">Search</button>
        <button type="button" onClick={() => control.current?.previous()} title="Previous change ([)"
          aria-label="Previous change">↑</button>
        <button type="button" onClick={() => control.current?.next()} title="Next change (])"
          aria-label="Next change">↓</button>
      </div>
      <Problem error={text.error} retry={text.reload} />
      {text.value && (
        <Merge before={text.value.before} after={text.value.after} control={control} onAligned={setAlignment}
          isIgnoringNumbers={isIgnoringNumbers.value} isWrapping={isWrapping.value}
          isFolding={isFolding.value && chosen?.change === "changed"} />
      )}
      {!text.value && text.isLoading && <Waiting what="Fetching the function" />}
    </section>
  );
}

function Check({ label, title, of }: { label: string; title?: string; of: Signal<boolean> }) {
  return (
    <label class="check" title={title}>
      <input type="checkbox" checked={of.value} onChange={(event) => (of.value = event.currentTarget.checked)} />
      {label}
    </label>
  );
}

function Counts({ of, alignment }: { of: FunctionChange; alignment: Alignment | null }) {
  if (of.change === "same") return <span class="dim">equal, {plural(of.lines_after, "line")}</span>;
  const { added, removed } = alignment ?? of;
  return (
    <span class="counts">
      <span class="good">+{added}</span> <span class="bad">−{removed}</span>
      <span class="dim">
        {" "}of {plural(of.lines_before, "line")}{alignment && alignment.renumbered > 0 && `, ${alignment.renumbered} renumbered`}
      </span>
    </span>
  );
}
