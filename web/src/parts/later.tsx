// Views that are fetched when they are shown first.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem, Waiting } from "./basics.tsx";

export function later<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let loaded: ComponentType<P> | null = null;
  return function Later(props: P) {
    const [, redraw] = useState(0);
    const [error, setError] = useState<unknown>(null);
    useEffect(() => {
      if (loaded) return;
      load().then((component) => {
        loaded = component;
        redraw(1);
      }, setError);
    }, []);
    const Loaded = loaded;
    if (Loaded) return <Loaded {...props} />;
    return error ? <Problem error={error} /> : <Waiting what="Opening" />;
  };
}
