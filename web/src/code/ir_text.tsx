// The IR of a program, to read.

import { defaultKeymap } from "@codemirror/commands";
import { search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useRef } from "preact/hooks";
import { colours, look, shadowOf, wrapping } from "./editor.ts";
import { irLanguage } from "./ir_language.ts";

export function IrText({ text }: { text: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!host.current) return undefined;
    const root = shadowOf(host.current);
    const frame = document.createElement("div");
    frame.style.height = "100%";
    root.replaceChildren(frame);
    const view = new EditorView({
      doc: text,
      parent: frame,
      root,
      extensions: [
        lineNumbers(),
        drawSelection(),
        EditorState.readOnly.of(true),
        EditorView.contentAttributes.of({ "aria-label": "IR", "aria-readonly": "true", tabindex: "0" }),
        search({ top: true }),
        keymap.of([...searchKeymap, ...defaultKeymap]),
        irLanguage,
        colours,
        look,
        wrapping,
        EditorView.theme({ "&": { height: "100%" } }),
      ],
    });
    return () => view.destroy();
  }, [text]);
  return <div class="ir-text" ref={host} />;
}
