// A search field over a list: letters narrow it, arrows choose, Enter takes.

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { search } from "../format.ts";

interface Props<T> {
  label: string;
  placeholder: string;
  items: readonly T[];
  keyOf: (item: T) => string;
  nameOf: (item: T) => string;
  row: (item: T) => ComponentChildren;
  rowClass?: (item: T) => string;
  onTake: (item: T) => void;
  /** The item that is taken already. */
  taken?: string | undefined;
  inputClass?: string;
  /** Told what is searched, where the list comes from a server. */
  onSearch?: (text: string) => void;
  /** How often the same list may be tall: rows beyond are cut, and the cut is said. */
  rowsMax?: number;
  empty?: ComponentChildren;
  clearOnTake?: boolean;
}

export function Finder<T>(props: Props<T>) {
  const { items, keyOf, nameOf, onTake, rowsMax = 400 } = props;
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const id = useId();
  const list = useRef<HTMLUListElement>(null);
  const found = search(items, nameOf, text);
  const shown = found.slice(0, rowsMax);
  const chosen = Math.min(at, shown.length - 1);

  useEffect(() => {
    const row = list.current?.children[chosen];
    if (row instanceof HTMLElement && row.closest(".finder")?.contains(document.activeElement)) row.scrollIntoView({ block: "nearest" });
  }, [chosen, text]);

  const take = (item: T | undefined) => {
    if (item === undefined) return;
    onTake(item);
    if (props.clearOnTake) {
      setText("");
      setAt(0);
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const move = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (move !== undefined) setAt(Math.max(0, Math.min(shown.length - 1, chosen + move)));
    else if (event.key === "Enter") take(shown[chosen]);
    else if (event.key === "Escape") {
      if (text === "") (document.activeElement as HTMLElement | null)?.blur();
      setText("");
      props.onSearch?.("");
    } else return;
    event.preventDefault();
  };
  return (
    <div class="finder" onKeyDown={onKeyDown}>
      <input id={`${id}-input`} class={`search ${props.inputClass ?? ""}`} type="text" role="combobox" value={text}
        placeholder={props.placeholder} aria-label={props.label} aria-expanded="true" aria-controls={`${id}-list`}
        aria-autocomplete="list" aria-activedescendant={shown.length > 0 ? `${id}-${chosen}` : undefined}
        autocomplete="off" spellcheck={false}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
          props.onSearch?.(event.currentTarget.value);
        }}
      />
      <ul id={`${id}-list`} role="listbox" aria-label={props.label} ref={list} tabIndex={-1}
        aria-activedescendant={shown.length > 0 ? `${id}-${chosen}` : undefined}>
        {shown.map((item, index) => (
          <li key={keyOf(item)} id={`${id}-${index}`} role="option" aria-selected={index === chosen}
            class={`${props.rowClass?.(item) ?? ""} ${keyOf(item) === props.taken ? "taken" : ""}`}
            onClick={() => {
              setAt(index);
              take(item);
            }}>
            {props.row(item)}
          </li>
        ))}
      </ul>
      {shown.length === 0 && <div class="nothing" role="status">{props.empty ?? `Nothing matches “${text}”.`}</div>}
      {found.length > shown.length && <p class="nothing">{found.length - shown.length} more: search to see them.</p>}
    </div>
  );
}
