// The sessions of this tab. No other tab shows them: there, a link to one opens a fork of it.

const KEY = "steplake-sessions";

/** What the page before a reload has left; nothing stays. */
export function taken(storage: Storage): string[] {
  const left = storage.getItem(KEY);
  storage.removeItem(KEY);
  return left === null ? [] : (JSON.parse(left) as string[]);
}

export const leave = (storage: Storage, ids: Iterable<string>): void => storage.setItem(KEY, JSON.stringify([...ids]));

/**
 * The ids. The tab's storage has them only between two pages: a tab that is duplicated hands a copy
 * of its storage on, and the sessions would be in two tabs.
 */
export const ownSessions = new Set<string>();

export function watchTab(): void {
  const take = () => taken(sessionStorage).forEach((id) => ownSessions.add(id));
  take();
  addEventListener("pagehide", () => leave(sessionStorage, ownSessions));
  // The browser shows a kept page again, after going back to it.
  addEventListener("pageshow", take);
}
