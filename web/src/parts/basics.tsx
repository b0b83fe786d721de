// Small things that every view uses.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { recordingCommand } from "../hints.ts";
import type { Live } from "../wire.ts";

const words = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** An error, where it happened. */
export function Problem({ error, retry }: { error: unknown; retry?: () => void }) {
  if (!error) return null;
  return (
    <div class="problem" role="alert">
      <p>{words(error)}</p>
      {retry && <button type="button" onClick={retry}>Try again</button>}
    </div>
  );
}

export function Waiting({ what }: { what: string }) {
  return <p class="waiting" role="status">{what}…</p>;
}

/** What to do where there is nothing yet. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Commands({ lines }: { lines: string[] }) {
  return (
    <div class="commands">
      <pre tabIndex={0} aria-label="Commands">{lines.map((line) => `$ ${line}\n`).join("")}</pre>
      <Copy text={lines.join("\n")} what="the commands" />
    </div>
  );
}

export function NoLake({ live, path = "lake", onLook }: { live: Live; path?: string | undefined; onLook: () => void }) {
  return (
    <Empty title={`There is no lake at ${path}`}>
      <p>A lake holds what was recorded. These commands record one in half a minute:</p>
      <Commands
        lines={[
          recordingCommand(live, path, "--policy explore --episodes 200"),
          `steplake --lake ${path} dedup`,
        ]}
      />
      <button type="button" class="primary" onClick={onLook}>Look again</button>
    </Empty>
  );
}

/** A button that copies a text, and says so. */
export function Copy({ text, what, label = "Copy", id }: { text: string; what: string; label?: string; id?: string }) {
  const [said, setSaid] = useState<string | null>(null);
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = () => {
    const say = (saying: string) => {
      setSaid(saying);
      clearTimeout(timer.current);
      timer.current = window.setTimeout(() => setSaid(null), 2000);
    };
    navigator.clipboard.writeText(text).then(() => say("Copied"), () => say("Not allowed"));
  };
  return (
    <button type="button" class="copy" id={id} onClick={copy} aria-live="polite" title={`Copy ${what}`}>
      {said ?? <>{label}{label === "Copy" && <span class="unseen"> {what}</span>}</>}
    </button>
  );
}

/** A number that matters, with its name. */
export function Figure({ name, children, tone, title }: {
  name: string;
  children: ComponentChildren;
  tone?: "good" | "bad" | undefined;
  title?: string;
}) {
  return (
    <div class="figure" title={title}>
      <dt>{name}</dt>
      <dd class={tone}>{children}</dd>
    </div>
  );
}

export interface TabLink {
  name: string;
  href: string;
  isHere: boolean;
  key?: string;
}

/** Links between the pages of a view. */
export function Tabs({ label, tabs }: { label: string; tabs: TabLink[] }) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <a key={tab.name} href={tab.href} aria-current={tab.isHere ? "page" : undefined}
          title={tab.key ? `${tab.name} (${tab.key})` : tab.name}>
          {tab.name}
        </a>
      ))}
    </nav>
  );
}

/** One of a few choices, as a row of buttons. */
export function Choice<T extends string>({ label, options, value, onChange }: {
  label: string;
  options: readonly { value: T; name: string }[];
  value: T;
  onChange: (value: T) => void;
}) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map((option) => (
        <button key={option.value} type="button" aria-pressed={option.value === value}
          onClick={() => onChange(option.value)}>
          {option.name}
        </button>
      ))}
    </div>
  );
}
