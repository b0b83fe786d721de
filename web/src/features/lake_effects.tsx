// What every action did, on average, in all of the lake.

import { useMemo, useState } from "preact/hooks";
import { api } from "../api.ts";
import { number } from "../format.ts";
import { Problem, Waiting } from "../parts/basics.tsx";
import { useLoad } from "../parts/load.ts";
import type { QueryResult } from "../wire.ts";
import { Heat } from "./heat.tsx";

const COLUMNS_MAX = 40;

/**
 * Mean change of every feature by every action, where the action changed the state, over the
 * transitions both of whose states have the features.
 */
const effectsOf = (space: string): string => `
WITH pairs AS (
  SELECT t.action, b."${space}" AS before, n."${space}" AS after
  FROM state_transitions AS t
  JOIN observations AS b ON b.state_id = t.state_id
  JOIN observations AS n ON n.state_id = t.next_state_id
  WHERE t.state_id <> t.next_state_id AND b."${space}" IS NOT NULL AND n."${space}" IS NOT NULL
), changed AS (
  SELECT action, unnest(feature_delta(before, after)) AS change FROM pairs
), tried AS (
  SELECT action, count(*) AS transitions FROM pairs GROUP BY action
)
SELECT action_name(c.action) AS action, t.transitions, change['feature'] AS feature,
       sum(CAST(change['after'] AS DOUBLE) - change['before']) / t.transitions AS mean_change
FROM changed AS c JOIN tried AS t ON t.action = c.action
GROUP BY c.action, t.transitions, change['feature']`;

interface Effects {
  columns: string[];
  rows: { key: string; name: string; cells: (number | null)[] }[];
  largest: number[];
  isCut: boolean;
}

function effectsIn({ rows, is_cut }: QueryResult): Effects {
  const byAction = new Map<string, { tried: number; changes: Map<string, number> }>();
  const largest = new Map<string, number>();
  for (const [action, tried, feature, mean] of rows) {
    const row = byAction.get(String(action)) ?? { tried: Number(tried), changes: new Map<string, number>() };
    byAction.set(String(action), row);
    row.changes.set(String(feature), Number(mean));
    largest.set(String(feature), Math.max(largest.get(String(feature)) ?? 0, Math.abs(Number(mean))));
  }
  // The features that some action changes most.
  const columns = [...largest].sort((a, b) => b[1] - a[1]).slice(0, COLUMNS_MAX).map(([name]) => name);
  const total = (changes: Map<string, number>) => [...changes.values()].reduce((sum, mean) => sum + Math.abs(mean), 0);
  const ordered = [...byAction].sort((a, b) => total(b[1].changes) - total(a[1].changes));
  return {
    columns,
    rows: ordered.map(([name, { tried, changes }]) => ({
      key: name, name: `${name} (${number(tried)})`, cells: columns.map((column) => changes.get(column) ?? 0),
    })),
    largest: columns.map((column) => largest.get(column) ?? 0),
    isCut: is_cut,
  };
}

export function LakeEffects({ space }: { space: string }) {
  const [text, setText] = useState("");
  const found = useLoad((cancel) => api.query(effectsOf(space), 100_000, cancel), [space]);
  const effects = useMemo(() => (found.value ? effectsIn(found.value) : null), [found.value]);
  const rows = effects?.rows.filter((row) => row.name.toLowerCase().includes(text.toLowerCase())) ?? [];
  return (
    <section class="panel heat-panel whole" aria-label="What every action does in the lake">
      <div class="bar">
        <h2>Mean change of each feature by an action</h2>
        <span class="dim">
          over the transitions that change the state, their number in brackets
          {effects?.isCut && "; the lake has more of them than are shown"}
        </span>
        <span class="grow" />
        <input class="search" type="text" value={text} placeholder="Search an action (/)" aria-label="Search an action"
          spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} />
      </div>
      <Problem error={found.error} retry={found.reload} />
      {found.isLoading && <Waiting what="Asking the lake" />}
      {effects && effects.rows.length === 0 && (
        <p class="nothing">
          The lake has no transition that changes a state and whose states have {space}. Run <code>steplake dedup</code>{" "}
          if it was recorded just now.
        </p>
      )}
      {effects && effects.rows.length > 0 && (
        <Heat label="Actions by features" rowName="action" columns={effects.columns} rows={rows}
          largest={effects.largest} />
      )}
    </section>
  );
}
