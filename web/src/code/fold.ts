// Folding of lines that are equal on both sides. A click on one side unfolds both.

import { StateEffect, StateField, type EditorState, type Extension, type Range } from "@codemirror/state";
import { Decoration, EditorView, WidgetType, type DecorationSet } from "@codemirror/view";
import type { Run } from "./align.ts";

const MARGIN_LINES = 4;
const FOLDED_LINES_MIN = 6;

export interface Fold {
  /** The first folded line, from 0, and their number. */
  a: number;
  b: number;
  count: number;
}

/** What is folded: the inner lines of long runs. Nothing is left out before the first and after the last line. */
export function foldsOf(runs: readonly Run[], linesA: number): Fold[] {
  return runs.flatMap((run) => {
    const before = run.a === 0 ? 0 : MARGIN_LINES;
    const after = run.a + run.count === linesA ? 0 : MARGIN_LINES;
    const count = run.count - before - after;
    return count < FOLDED_LINES_MIN ? [] : [{ a: run.a + before, b: run.b + before, count }];
  });
}

/** Unfolds the fold of a number. */
const unfold = StateEffect.define<number>();

class FoldedLines extends WidgetType {
  constructor(readonly count: number, readonly onOpen: () => void) {
    super();
  }
  override eq(other: FoldedLines): boolean {
    return other.count === this.count;
  }
  override toDOM(): HTMLElement {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "cm-folded";
    button.textContent = `⋯ ${this.count} equal lines`;
    button.addEventListener("click", this.onOpen);
    return button;
  }
  override get estimatedHeight(): number {
    return 24;
  }
  override ignoreEvent(): boolean {
    return true;
  }
}

/** The folds of one side; `open` is told the number of a fold that was clicked. */
export function folding(folds: readonly Fold[], side: "a" | "b", open: (fold: number) => void): Extension {
  const build = (state: EditorState): DecorationSet => {
    const ranges = folds.map((fold, at): Range<Decoration> => {
      const from = state.doc.line(fold[side] + 1).from;
      const to = state.doc.line(fold[side] + fold.count).to;
      return Decoration.replace({ widget: new FoldedLines(fold.count, () => open(at)), block: true, fold: at }).range(from, to);
    });
    return Decoration.set(ranges);
  };
  const field = StateField.define<DecorationSet>({
    create: build,
    update(shown, transaction) {
      for (const effect of transaction.effects) {
        if (effect.is(unfold)) {
          shown = shown.update({ filter: (_, __, value) => (value.spec as { fold?: number }).fold !== effect.value });
        }
      }
      return shown;
    },
    provide: (self) => EditorView.decorations.from(self),
  });
  return field;
}

export const unfoldIn = (view: EditorView, fold: number): void => view.dispatch({ effects: unfold.of(fold) });
