// Two texts side by side, with what changed between them.

import { defaultKeymap } from "@codemirror/commands";
import { MergeView } from "@codemirror/merge";
import { openSearchPanel, search, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { Decoration, drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { align, type Alignment } from "./align.ts";
import { colours, look, shadowOf, wrapping } from "./editor.ts";
import { folding, foldsOf, unfoldIn } from "./fold.ts";
import { irLanguage } from "./ir_language.ts";

/** Where a precise comparison takes longer, the view shows a coarser one. */
const DIFF_TIMEOUT_MS = 300;

export interface MergeControl {
  next: () => void;
  previous: () => void;
  search: () => void;
}

const mark = (name: string, share: number) => `color-mix(in srgb, var(--${name}) ${share}%, transparent)`;
const changed = (side: string, name: string) => ({
  [`&.cm-merge-${side} .cm-changedLine`]: { backgroundColor: mark(name, 8), boxShadow: `inset 2px 0 var(--${name})` },
  [`&.cm-merge-${side} .cm-changedText`]: { background: mark(name, 18) },
  [`&.cm-merge-${side} .cm-renumbered`]: { backgroundColor: "transparent", boxShadow: "none" },
  [`&.cm-merge-${side} .cm-renumbered .cm-changedText`]: { background: "none" },
});
const mergeLook = EditorView.theme({
  ...changed("a", "bad"),
  ...changed("b", "good"),
  ".cm-folded": {
    display: "block", width: "100%", height: "24px", padding: "0 12px", border: "0", background: "var(--raised)",
    color: "var(--dim)", font: "11.5px system-ui, sans-serif", textAlign: "left", whiteSpace: "nowrap", cursor: "pointer",
  },
  ".cm-folded:hover": { color: "var(--accent)" },
  ".cm-mergeSpacer": { background: mark("line", 22) },
  // Two texts side by side need the width of their numbers more.
  "@media (max-width: 720px)": { ".cm-gutters": { display: "none !important" }, ".cm-folded": { padding: "0 4px" } },
});

const side = (name: string): Extension => [
  lineNumbers(),
  drawSelection(),
  EditorState.readOnly.of(true),
  EditorView.contentAttributes.of({ "aria-label": name, "aria-readonly": "true", tabindex: "0" }),
  search({ top: true }),
  keymap.of([...searchKeymap, ...defaultKeymap]),
  irLanguage,
  colours,
  look,
  mergeLook,
];

/** Marks lines whose numbers alone differ, so that they do not look changed. */
const renumbered = (lines: readonly number[]): Extension =>
  EditorView.decorations.compute([], (state) =>
    Decoration.set(lines.map((line) => Decoration.line({ class: "cm-renumbered" }).range(state.doc.line(line + 1).from))));

export interface MergeProps {
  before: string;
  after: string;
  /** Whether lines that differ in the numbers of values alone count as equal. */
  isIgnoringNumbers: boolean;
  isFolding: boolean;
  isWrapping: boolean;
  control: { current: MergeControl | null };
  onAligned: (alignment: Alignment | null) => void;
}

export function Merge(props: MergeProps) {
  const { before, after, isIgnoringNumbers, isFolding, isWrapping, control, onAligned } = props;
  const host = useRef<HTMLDivElement>(null);
  const alignment = useMemo(() => (isIgnoringNumbers ? align(before, after) : null), [before, after, isIgnoringNumbers]);
  useEffect(() => onAligned(alignment), [alignment]);
  useEffect(() => {
    if (!host.current) return undefined;
    const root = shadowOf(host.current);
    const frame = document.createElement("div");
    Object.assign(frame.style, { height: "100%", overflow: "auto" });
    root.replaceChildren(frame);
    const folds = alignment && isFolding ? foldsOf(alignment.runs, before.split("\n").length) : [];
    const open = (fold: number) => [view.a, view.b].forEach((editor) => unfoldIn(editor, fold));
    const shared = isWrapping ? wrapping : [];
    const view: MergeView = new MergeView({
      a: { doc: before, extensions: [side("Before"), shared, renumbered(alignment?.syncA ?? []), folding(folds, "a", open)] },
      b: { doc: after, extensions: [side("After"), shared, renumbered(alignment?.syncB ?? []), folding(folds, "b", open)] },
      parent: frame,
      root,
      gutter: false,
      diffConfig: alignment ? { override: () => alignment.changes } : { scanLimit: 800, timeout: DIFF_TIMEOUT_MS },
      ...(!alignment && isFolding ? { collapseUnchanged: { margin: 4, minSize: 8 } } : {}),
    });
    const places = alignment?.places ?? view.chunks.map((chunk) => chunk.fromB);
    control.current = {
      next: () => moveTo(view.b, places.find((place) => place > view.b.state.selection.main.head) ?? places[0]),
      previous: () => moveTo(view.b, places.findLast((place) => place < view.b.state.selection.main.head) ?? places.at(-1)),
      search: () => openSearchPanel(view.b),
    };
    return () => {
      control.current = null;
      view.destroy();
    };
  }, [before, after, alignment, isFolding, isWrapping]);
  return <div class="merge" ref={host} data-testid="merge" />;
}

function moveTo(view: EditorView, place: number | undefined): void {
  if (place === undefined) return;
  view.dispatch({ selection: { anchor: place }, effects: EditorView.scrollIntoView(place, { y: "center" }) });
}
