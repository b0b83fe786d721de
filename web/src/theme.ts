// Dark or light: as the system is, unless chosen here.

import { signal } from "@preact/signals";

const KEY = "steplake-theme";
export type Theme = "system" | "light" | "dark";
const THEMES: Theme[] = ["system", "light", "dark"];

const kept = localStorage.getItem(KEY);
export const theme = signal<Theme>(THEMES.find((known) => known === kept) ?? "system");
const system = matchMedia("(prefers-color-scheme: dark)");
/** Counts the changes, for pictures that draw their own colours. */
export const colours = signal(0);

function show(): void {
  if (theme.value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
  colours.value += 1;
}

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "system";
  localStorage.setItem(KEY, theme.value);
  show();
}

export function watchTheme(): void {
  system.addEventListener("change", show);
  show();
}

/** The value of a colour of the style sheet, for a canvas. */
export function colour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
