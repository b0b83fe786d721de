// The choice of a program, an action space and a reward space.

import { signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";
import { api } from "../api.ts";
import { plural } from "../format.ts";
import { exampleOf } from "../hints.ts";
import { Choice, Problem } from "../parts/basics.tsx";
import { Finder } from "../parts/finder.tsx";
import { useLoad } from "../parts/load.ts";
import { sourceName } from "../source.ts";
import { actionsOf, busy, describe, sessionError, start } from "../store.ts";
import type { Live } from "../wire.ts";

interface Program {
  uri: string;
  from: string;
  episodes?: number;
}

/** The name of a dataset without its scheme. */
const bare = (dataset: string): string => dataset.replace(/^[a-z]+:\/\//, "");

const draft = signal({ language: "c" as "c" | "ll", text: "" });

export function Chooser() {
  const live = describe.value?.live;
  const [space, setSpace] = useState(live?.default_action_space ?? "");
  const [reward, setReward] = useState(live?.default_reward_space ?? "");
  if (!live) return null;
  const settings = { action_space: space, reward_space: reward };
  return (
    <div class="chooser">
      <header>
        <h2 class="title">Choose a program</h2>
        <p class="dim">
          Then take one action after another, go back, and try something else. Everything runs on this machine, in{" "}
          {live.environment}.
        </p>
        <div class="settings">
          <label>
            Actions
            <select value={space} onChange={(event) => setSpace(event.currentTarget.value)}>
              {live.action_spaces.map((known) => (
                <option key={known.name} value={known.name}>{known.name} ({known.actions.length})</option>
              ))}
            </select>
          </label>
          <label>
            Reward
            <select value={reward} onChange={(event) => setReward(event.currentTarget.value)}>
              {live.reward_spaces.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          </label>
          <span class="dim">{plural(actionsOf(space).length, "action")}</span>
        </div>
        <Problem error={sessionError.value} />
        <p class="waiting" role="status">{busy.value ? `${busy.value}…` : ""}</p>
      </header>
      <Programs live={live} onTake={(benchmark) => void start({ benchmark, ...settings })} />
      <OwnProgram settings={settings} />
    </div>
  );
}

function Programs({ live, onTake }: { live: Live; onTake: (benchmark: string) => void }) {
  const [text, setText] = useState("");
  const [dataset, setDataset] = useState<string | null>(null);
  const hasLake = describe.value?.lake != null;
  const recorded = useLoad(hasLake ? (cancel) => api.benchmarks(text, 200, cancel) : null, [hasLake, text], false);
  const programs = useMemo(() => {
    const found = new Map<string, Program>();
    for (const { benchmark, episodes } of recorded.value ?? []) {
      found.set(benchmark, { uri: benchmark, from: "recorded", episodes });
    }
    for (const known of live.datasets) {
      for (const uri of known.examples) if (!found.has(uri)) found.set(uri, { uri, from: known.name });
    }
    const typed = text.trim();
    // A URI, or the path of a file.
    if (/[/.]/.test(typed) && !found.has(typed)) found.set(typed, { uri: typed, from: "as typed" });
    const all = [...found.values()];
    return dataset ? all.filter((program) => program.uri.includes(`://${bare(dataset)}`)) : all;
  }, [recorded.value, live, text, dataset]);
  const example = exampleOf(live);
  return (
    <section class="panel programs" aria-label="Programs">
      <div class="bar">
        <h2>Programs</h2>
        <span class="dim">type any URI of these datasets</span>
      </div>
      <div class="datasets">
        {live.datasets.map((known) => (
          <button key={known.name} type="button" aria-pressed={dataset === known.name} title={known.description}
            onClick={() => setDataset(dataset === known.name ? null : known.name)}>
            {bare(known.name) || known.name}
          </button>
        ))}
      </div>
      <Problem error={recorded.error} retry={recorded.reload} />
      <Finder label="Search a program" placeholder="Search a program, Enter starts it (/)" items={programs}
        keyOf={(program) => program.uri} nameOf={(program) => program.uri} onSearch={setText}
        onTake={(program) => onTake(program.uri)}
        empty={<>Nothing matches. Type a whole URI{example && <>, for example <code>{example}</code></>}.</>}
        row={(program) => (
          <>
            <span class="name">{program.uri}</span>
            <span class="value dim">
              {program.episodes === undefined ? program.from : plural(program.episodes, "episode")}
            </span>
          </>
        )} />
    </section>
  );
}

const EXAMPLE = `int sum(const int *numbers, int count) {
  int total = 0;
  for (int i = 0; i < count; ++i)
    total += numbers[i] * 2;
  return total;
}
`;

function OwnProgram({ settings }: { settings: { action_space: string; reward_space: string } }) {
  const { language, text } = draft.value;
  const set = (changes: Partial<typeof draft.value>) => (draft.value = { ...draft.value, ...changes });
  const open = async (file: File | undefined) => {
    if (file) set({ text: await file.text(), language: file.name.endsWith(".ll") ? "ll" : "c" });
  };
  const begin = () => void start({ ...settings, source: { name: sourceName(language, text), text } });
  return (
    <section class="panel own" aria-label="Your own program">
      <div class="bar">
        <h2>Your own program</h2>
        <span class="grow" />
        <Choice label="Language" value={language} onChange={(chosen) => set({ language: chosen })}
          options={[{ value: "c", name: "C" }, { value: "ll", name: "LLVM IR" }]} />
      </div>
      <textarea aria-label="Source of your own program" spellcheck={false} value={text}
        placeholder={language === "c" ? EXAMPLE : "define i32 @main() {\n  ret i32 0\n}\n"}
        onInput={(event) => set({ text: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) begin();
        }} />
      <div class="bar foot">
        <label class="file">
          Open a file
          <input type="file" class="unseen" accept=".c,.ll" onChange={(event) => void open(event.currentTarget.files?.[0])} />
        </label>
        {text === "" && language === "c" && (
          <button type="button" onClick={() => set({ text: EXAMPLE })}>Use the example</button>
        )}
        <span class="grow" />
        <button type="button" class="primary" disabled={text.trim() === "" || busy.value !== null} onClick={begin}
          title="Ctrl Enter">
          Start
        </button>
      </div>
    </section>
  );
}
