// The lake: its graph, its best paths, where to go on, questions to it, and what is being recorded.

import { useEffect } from "preact/hooks";
import { useKeys } from "../keys.ts";
import { NoLake, Tabs } from "../parts/basics.tsx";
import { later } from "../parts/later.tsx";
import { formatRoute, LAKE_PAGES, type LakePage } from "../route.ts";
import { describe, go, refreshDescribe, route } from "../store.ts";
import { BestPaths } from "./best_paths.tsx";
import { FrontierPage } from "./frontier.tsx";
import { Recording } from "./recording.tsx";

const GraphPage = later(() => import("./graph_page.tsx").then((module) => module.GraphPage));
const SqlPage = later(() => import("./sql_page.tsx").then((module) => module.SqlPage));

const NAMES: Record<LakePage, { name: string; key: string }> = {
  graph: { name: "Graph", key: "g" },
  best: { name: "Best paths", key: "e" },
  frontier: { name: "Frontier", key: "f" },
  sql: { name: "Queries", key: "q" },
  recording: { name: "Recording", key: "r" },
};

/** How often the page looks how much the lake has, and whether there is one. */
const LOOK_MS = 10_000;
const LOOK_FOR_LAKE_MS = 3000;

export function LakeView({ page }: { page: LakePage }) {
  const { benchmark } = route.value.params;
  const hrefOf = (to: LakePage) =>
    formatRoute("lake", to, to === "graph" || to === "frontier" ? { benchmark } : {});
  useKeys(Object.fromEntries(LAKE_PAGES.map((to) => [NAMES[to].key, () => go(hrefOf(to))])));
  const { lake, live, lake_path: path } = describe.value ?? {};
  useEffect(() => {
    const look = () => void (document.hidden || refreshDescribe());
    look();
    const timer = setInterval(look, lake ? LOOK_MS : LOOK_FOR_LAKE_MS);
    return () => clearInterval(timer);
  }, [page, !lake]);
  if (!live) return null;
  if (!lake) return <NoLake live={live} path={path ?? undefined} onLook={() => void refreshDescribe()} />;
  return (
    <div class="lake">
      <header class="lake-head">
        <Tabs label="Pages of the lake" tabs={LAKE_PAGES.map((to) => ({
          name: NAMES[to].name, key: NAMES[to].key, href: hrefOf(to), isHere: to === page,
        }))} />
        {lake.uncounted_steps > 0 && (
          <p class="hint">
            Steps were recorded since the last <code>steplake dedup</code>. Graph, best paths and frontier leave them out.
          </p>
        )}
      </header>
      {page === "graph" && <GraphPage />}
      {page === "best" && <BestPaths />}
      {page === "frontier" && <FrontierPage />}
      {page === "sql" && <SqlPage />}
      {page === "recording" && <Recording />}
    </div>
  );
}
