// The field for a question in SQL.

import { autocompletion, closeBrackets, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { PostgreSQL, sql } from "@codemirror/lang-sql";
import { Compartment, EditorState, Prec } from "@codemirror/state";
import { drawSelection, EditorView, keymap, placeholder } from "@codemirror/view";
import { useEffect, useRef } from "preact/hooks";
import { colours, look, shadowOf } from "../code/editor.ts";

export type Tables = Record<string, string[]>;

/** The text is the editor's own once it is shown: writing it back while somebody types would undo what was typed. */
export function SqlEditor({ text, tables, onChange, onRun }: {
  text: string;
  tables: Tables;
  onChange: (text: string) => void;
  onRun: () => void;
}) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const language = useRef(new Compartment());
  const latest = useRef({ onChange, onRun });
  latest.current = { onChange, onRun };

  useEffect(() => {
    if (!host.current) return undefined;
    const root = shadowOf(host.current);
    const frame = document.createElement("div");
    frame.style.height = "100%";
    root.replaceChildren(frame);
    const run = () => {
      latest.current.onRun();
      return true;
    };
    const made = new EditorView({
      doc: text,
      parent: frame,
      root,
      extensions: [
        Prec.highest(keymap.of([{ key: "Mod-Enter", run }])),
        history(),
        drawSelection(),
        closeBrackets(),
        autocompletion(),
        keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap]),
        language.current.of(languageOf(tables)),
        placeholder("SELECT …"),
        colours,
        look,
        EditorState.tabSize.of(2),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": "Question in SQL" }),
        EditorView.theme({ "&": { height: "100%" }, ".cm-scroller": { overflow: "auto" }, ".cm-line": { padding: "0 12px" } }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) latest.current.onChange(update.state.doc.toString());
        }),
      ],
    });
    view.current = made;
    return () => {
      view.current = null;
      made.destroy();
    };
  }, []);
  useEffect(() => view.current?.dispatch({ effects: language.current.reconfigure(languageOf(tables)) }), [tables]);
  return <div class="sql-editor" ref={host} />;
}

const languageOf = (tables: Tables) => sql({ dialect: PostgreSQL, schema: tables, upperCaseKeywords: true });
