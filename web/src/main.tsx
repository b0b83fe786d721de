// The page starts here.

import { render } from "preact";
import { keepToken } from "./api.ts";
import { App } from "./app.tsx";
import { parseRoute } from "./route.ts";
import { loadDescribe, route } from "./store.ts";
import { watchTab } from "./tab.ts";
import { watchTheme } from "./theme.ts";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/session.css";
import "./styles/code.css";
import "./styles/features.css";
import "./styles/lake.css";

function readAddress(): void {
  const kept = keepToken(location.hash);
  if (kept !== location.hash) history.replaceState(null, "", kept === "" ? location.pathname : kept);
  route.value = parseRoute(location.hash);
}

readAddress();
addEventListener("hashchange", readAddress);
addEventListener("popstate", readAddress);
watchTheme();
watchTab();
void loadDescribe();

const place = document.getElementById("app");
if (place) render(<App />, place);
