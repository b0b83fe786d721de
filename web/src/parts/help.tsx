// The list of shortcuts.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { areKeysOn, SHORTCUTS, turnKeys } from "../keys.ts";

export const isHelpOpen = signal(false);

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = isHelpOpen.value;
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={() => (isHelpOpen.value = false)}>
      <header>
        <h2 id="help-title">Keys</h2>
        <button type="button" onClick={() => (isHelpOpen.value = false)} aria-label="Close">✕</button>
      </header>
      <div class="help-columns">
        {SHORTCUTS.map((group) => (
          <section key={group.where}>
            <h3>{group.where}</h3>
            <dl>
              {group.keys.map((shortcut) => (
                <div key={shortcut.keys}>
                  <dt>{shortcut.keys.split(" ").map((key) => <kbd key={key}>{key}</kbd>)}</dt>
                  <dd>{shortcut.what}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <label class="check">
        <input type="checkbox" checked={areKeysOn.value} onChange={(event) => turnKeys(event.currentTarget.checked)} />
        Single keys are shortcuts
      </label>
    </dialog>
  );
}
