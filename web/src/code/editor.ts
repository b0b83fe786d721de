// What editors have in common. They live in a shadow root: there CodeMirror can add its style
// sheets although the server's policy allows no inline style.

import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

export const colours: Extension = syntaxHighlighting(HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-word)" },
  { tag: [tags.typeName, tags.typeOperator], color: "var(--code-type)" },
  { tag: tags.className, color: "var(--code-name)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.comment, tags.lineComment, tags.blockComment, tags.meta, tags.modifier], color: "var(--code-faint)" },
  { tag: tags.labelName, color: "var(--text)", fontWeight: "600" },
]));

export const look: Extension = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "transparent", fontSize: "12px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)", padding: "6px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--dim)", border: "none" },
  ".cm-lineNumbers .cm-gutterElement": { minWidth: "34px", padding: "0 8px 0 6px" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "transparent" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground, .cm-content ::selection": {
    backgroundColor: "var(--accent-soft) !important",
  },
  ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-panels input, .cm-panels button": {
    background: "var(--panel)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "5px",
  },
  ".cm-panels .cm-textfield, .cm-panels button, .cm-panels label": { minWidth: "24px", minHeight: "24px", fontSize: "12px" },
  ".cm-panels .cm-textfield": { maxWidth: "calc(100% - 36px)" },
  ".cm-panels label": { display: "inline-flex", alignItems: "center" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { lineHeight: "24px" },
  ".cm-searchMatch": { backgroundColor: "color-mix(in srgb, var(--warm) 35%, transparent)" },
  ".cm-searchMatch-selected": { backgroundColor: "color-mix(in srgb, var(--warm) 65%, transparent)" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent-soft)", color: "var(--text)" },
  ".cm-placeholder": { color: "var(--dim)" },
});

/** Wrapped lines go on two columns further in. */
export const wrapping: Extension = [
  EditorView.lineWrapping,
  EditorView.theme({ ".cm-line": { paddingLeft: "calc(2ch + 6px)", textIndent: "-2ch" } }),
];

/** The shadow root of an element, made once. */
export const shadowOf = (host: HTMLElement): ShadowRoot => host.shadowRoot ?? host.attachShadow({ mode: "open" });
