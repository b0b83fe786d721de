// Loading of what a component shows.

import { useCallback, useEffect, useState } from "preact/hooks";

export interface Loaded<T> {
  value: T | null;
  error: unknown;
  isLoading: boolean;
  reload: () => void;
}

/**
 * Calls `get` whenever one of `on` changes; `null` loads nothing. The value before stays until the
 * next one is there, unless `forget` says that it means something else.
 */
export function useLoad<T>(
  get: ((signal: AbortSignal) => Promise<T>) | null,
  on: readonly unknown[],
  forget = true,
): Loaded<T> {
  const [state, setState] = useState<Omit<Loaded<T>, "reload">>({ value: null, error: null, isLoading: get !== null });
  const [again, setAgain] = useState(0);
  useEffect(() => {
    if (!get) {
      setState({ value: null, error: null, isLoading: false });
      return undefined;
    }
    const cancel = new AbortController();
    setState((before) => ({ value: forget ? null : before.value, error: null, isLoading: true }));
    get(cancel.signal).then(
      (value) => {
        if (!cancel.signal.aborted) setState({ value, error: null, isLoading: false });
      },
      (error: unknown) => {
        if (!cancel.signal.aborted) setState({ value: null, error, isLoading: false });
      },
    );
    return () => cancel.abort();
  }, [...on, again]);
  const reload = useCallback(() => setAgain((count) => count + 1), []);
  return { ...state, reload };
}
