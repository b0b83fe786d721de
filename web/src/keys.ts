// Shortcuts: what a key does where, and the list that `?` shows.

import { useLayoutEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";

export interface Shortcut {
  keys: string;
  what: string;
}

/** Every shortcut, in the order of the help. */
export const SHORTCUTS: { where: string; keys: Shortcut[] }[] = [
  {
    where: "Everywhere",
    keys: [
      { keys: "1 2 3 4", what: "Session, Code, Features, Lake" },
      { keys: "/", what: "search in this view" },
      { keys: "t", what: "dark, light, or as the system is" },
      { keys: "?", what: "this help" },
      { keys: "Esc", what: "leave a search or a dialog" },
    ],
  },
  {
    where: "Session",
    keys: [
      { keys: "a", what: "search an action" },
      { keys: "↑ ↓ Enter", what: "in the search: choose, and take the action" },
      { keys: "← → ↑ ↓", what: "in the tree: parent, child, node before, node after" },
      { keys: "Home End", what: "in the tree: the start, the best node" },
      { keys: "u Delete", what: "undo: remove the node and what is below it" },
      { keys: "n", what: "another program" },
    ],
  },
  {
    where: "Code",
    keys: [
      { keys: "j k", what: "next and previous step" },
      { keys: "] [", what: "next and previous change in the text" },
      { keys: "h", what: "hide passes without change" },
      { keys: "b", what: "compare with the step before, or with the start" },
      { keys: "c", what: "copy the command" },
      { keys: "Ctrl F", what: "in the text: search the text" },
    ],
  },
  {
    where: "Lake",
    keys: [
      { keys: "g e f q r", what: "graph, best paths, frontier, queries, recording" },
      { keys: "+ - 0 ← → ↑ ↓", what: "in the graph: zoom, fit, move" },
      { keys: "Ctrl Enter", what: "in the query: run it" },
    ],
  },
];

const OFF_KEY = "steplake-keys-off";
/** Whether single keys are shortcuts. Who dictates to the browser turns them off. */
export const areKeysOn = signal(localStorage.getItem(OFF_KEY) === null);

export function turnKeys(on: boolean): void {
  areKeysOn.value = on;
  if (on) localStorage.removeItem(OFF_KEY);
  else localStorage.setItem(OFF_KEY, "yes");
}

const isTyping = (event: KeyboardEvent): boolean =>
  event.composedPath().some((place) =>
    place instanceof HTMLElement &&
    (place.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(place.tagName)));

/** Handles single keys while a component is shown, unless somebody types or a dialog is open. */
export function useKeys(handlers: Record<string, () => void>): void {
  const latest = useRef(handlers);
  latest.current = handlers;
  // Before the browser paints, so that no key is lost to somebody who sees the page.
  useLayoutEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
      if (!areKeysOn.value || !isPlain || event.defaultPrevented || isTyping(event)) return;
      if (document.querySelector("dialog[open]")) return;
      const handler = latest.current[event.key];
      if (!handler) return;
      event.preventDefault();
      handler();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}

/** Puts the cursor into a search field of the view. */
export function focusOn(selector: string): void {
  const field = document.querySelector<HTMLElement>(selector);
  field?.focus();
  if (field instanceof HTMLInputElement) field.select();
}
