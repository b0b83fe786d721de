// The frame around the views: where one is, where one can go, what is open.

import { useEffect } from "preact/hooks";
import { number } from "./format.ts";
import { focusOn, useKeys } from "./keys.ts";
import { Problem, Waiting } from "./parts/basics.tsx";
import { Help, isHelpOpen } from "./parts/help.tsx";
import { later } from "./parts/later.tsx";
import { VIEWS, type View } from "./route.ts";
import { SessionView } from "./session/view.tsx";
import { describe, describeError, go, hrefOf, lakeState, lastLake, loadDescribe, openFrom, route } from "./store.ts";
import { nextTheme, theme } from "./theme.ts";

const CodeView = later(() => import("./code/view.tsx").then((module) => module.CodeView));
const FeaturesView = later(() => import("./features/view.tsx").then((module) => module.FeaturesView));
const LakeView = later(() => import("./lake/view.tsx").then((module) => module.LakeView));

const NAMES: Record<View, string> = { session: "Session", code: "Code", features: "Features", lake: "Lake" };
const THEME_NAMES = { system: "Auto", light: "Light", dark: "Dark" } as const;

export function App() {
  const { view, page, params } = route.value;

  useEffect(() => {
    if (view === "lake") {
      lastLake.value = location.hash;
    } else if (params["state"]) {
      lakeState.value = params["state"];
    } else {
      if (view === "session" || params["session"] || params["benchmark"]) lakeState.value = null;
      void openFrom(params);
    }
  }, [view, page, params]);
  useEffect(() => {
    document.title = `${NAMES[view]} · steplake`;
  }, [view]);
  useKeys({
    1: () => go(hrefOf("session")),
    2: () => go(hrefOf("code")),
    3: () => go(hrefOf("features")),
    4: () => go(hrefOf("lake")),
    "/": () => focusOn("main .search"),
    t: nextTheme,
    "?": () => (isHelpOpen.value = true),
  });
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        focusOn("main");
      }}>To the content</a>
      <Header view={view} />
      <main id="main" class={`view-${view}`} tabIndex={-1}>
        <h1 class="unseen">{NAMES[view]}</h1>
        {describeError.value ? (
          <div class="centred"><Problem error={describeError.value} retry={() => void loadDescribe()} /></div>
        ) : describe.value ? (
          <>
            {view === "session" && <SessionView />}
            {view === "code" && <CodeView />}
            {view === "features" && <FeaturesView />}
            {view === "lake" && <LakeView page={page} />}
          </>
        ) : (
          <Waiting what="Asking the server" />
        )}
      </main>
      <Help />
    </>
  );
}

function Header({ view }: { view: View }) {
  const lake = describe.value?.lake;
  return (
    <header class="top">
      <a class="mark" href={hrefOf("session")} aria-label="steplake, to the session">
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <path d="M8 16C13 16 13 9 19 9M8 16C13 16 13 23 19 23" />
          <circle cx="8" cy="16" r="3.4" /><circle cx="22" cy="9" r="3.4" /><circle cx="22" cy="23" r="3.4" />
        </svg>
        steplake
      </a>
      <nav class="views" aria-label="Views">
        {VIEWS.map((name, at) => (
          <a key={name} href={hrefOf(name)} aria-current={name === view ? "page" : undefined}
            title={`${NAMES[name]} (${at + 1})`}>
            {NAMES[name]}
          </a>
        ))}
      </nav>
      <div class="top-right">
        {lake && (
          <a class="lake-about" href={hrefOf("lake")} title={`${lake.path}, snapshot ${lake.snapshot ?? "newest"}`}>
            {lake.path.split("/").filter(Boolean).at(-1)} · {number(lake.states)} states
          </a>
        )}
        <button type="button" onClick={nextTheme} title="Dark, light, or as the system is (t)"
          aria-label={`Colours: ${THEME_NAMES[theme.value]}`}>
          {THEME_NAMES[theme.value]}
        </button>
        <button type="button" onClick={() => (isHelpOpen.value = true)} title="Keys (?)" aria-label="Keys">?</button>
      </div>
    </header>
  );
}
