// A way through every place of the page.

import { join } from "node:path";
import type { Page } from "playwright-core";
import { ask, sqlField, startSession, take, type Harness } from "./harness.ts";

type Look = (page: Page, where: string) => Promise<void>;

/** Goes through the places of live sessions, and calls `look` at each. */
export async function tourLive(page: Page, look: Look): Promise<void> {
  await page.getByRole("option", { name: /steplake-v0\/huffman/ }).waitFor();
  await look(page, "choice");
  await page.getByRole("combobox", { name: "Search a program" }).fill("no such program");
  await page.getByText("Nothing matches.").waitFor();
  await look(page, "choice-nothing");
  await page.getByRole("combobox", { name: "Search a program" }).fill("");
  await startSession(page, "benchmark://steplake-v0/huffman");
  await look(page, "session-start");
  for (const action of ["mem2reg", "instcombine", "inline", "simplifycfg"]) await take(page, action);
  await page.getByRole("treeitem", { name: /^mem2reg/ }).click();
  await take(page, "gvn");
  await look(page, "session");
  await page.getByRole("button", { name: "Keys" }).click();
  await look(page, "keys");
  await page.keyboard.press("Escape");
  const views = page.getByRole("navigation", { name: "Views" });
  await views.getByRole("link", { name: "Code" }).click();
  await page.locator(".merge").getByRole("textbox", { name: "After" }).waitFor();
  await look(page, "code");
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await page.locator(".merge").getByRole("textbox", { name: "Find" }).waitFor();
  await look(page, "code-search");
  await views.getByRole("link", { name: "Features" }).click();
  await page.locator(".tracks button").first().waitFor();
  await look(page, "features");
}

/** Goes through the places of the lake, and calls `look` at each. */
export async function tourLake(page: Page, look: Look): Promise<void> {
  await page.locator(".picture .legend").waitFor();
  await look(page, "lake-graph");
  const pages = page.getByRole("navigation", { name: "Pages of the lake" });
  await pages.getByRole("link", { name: "Best paths" }).click();
  const best = page.locator("table tbody tr", { hasText: "huffman" });
  await best.waitFor();
  await look(page, "lake-best");
  await best.locator("a.mono").click();
  await page.locator(".state-card .path-list").waitFor();
  await look(page, "lake-state");
  for (const [name, shown] of [[/^Out/, ".neighbours"], ["IR", ".ir-text"]] as const) {
    await page.getByRole("group", { name: "About the state" }).getByRole("button", { name }).click();
    await page.locator(shown).waitFor();
    await look(page, `lake-state-${shown.slice(1)}`);
  }
  await pages.getByRole("link", { name: "Frontier" }).click();
  await page.locator("table tbody tr").first().waitFor();
  await look(page, "lake-frontier");
  await tourQueries(page, look);
  await pages.getByRole("link", { name: "Recording" }).click();
  await page.getByRole("heading", { name: "Nothing is being recorded" }).waitFor();
  await look(page, "lake-recording");
  await page.keyboard.press("3");
  await page.getByRole("button", { name: "All of the lake" }).click();
  await page.locator(".heat tbody tr").first().waitFor();
  await look(page, "features-lake");
}

async function tourQueries(page: Page, look: Look): Promise<void> {
  await page.getByRole("navigation", { name: "Pages of the lake" }).getByRole("link", { name: "Queries" }).click();
  await page.getByRole("textbox", { name: "Question in SQL" }).waitFor();
  await look(page, "lake-queries");
  // There is nothing to complete until the tables of the lake have come.
  const completion = page.locator(".cm-tooltip-autocomplete li").first();
  for (let tries = 0; tries < 20 && !(await completion.isVisible()); tries++) {
    await sqlField(page).press("ControlOrMeta+Space");
    await completion.waitFor({ timeout: 2000 }).catch(() => undefined);
  }
  await completion.waitFor();
  await look(page, "lake-completion");
  await page.keyboard.press("Escape");
  await ask(page, "SELECT action_name(action) AS action, count(*) AS steps FROM steps GROUP BY 1 ORDER BY 2 DESC LIMIT 30");
  const answer = page.getByRole("region", { name: "Answer", exact: true });
  await answer.locator("tbody tr").first().waitFor();
  await look(page, "lake-answer");
  await answer.getByRole("button", { name: "Plot" }).click();
  await answer.locator(".chart canvas").waitFor();
  await look(page, "lake-plot");
  await page.getByRole("combobox", { name: "Question" }).selectOption("opcode_delta");
  await page.getByText("Give state, action.").waitFor();
  await look(page, "lake-named");
}

/** Goes through what is shown where there is nothing, or an error. */
export async function tourEmpty(harness: Harness, page: Page, look: Look): Promise<void> {
  await page.goto(new URL("#/code", harness.server.url).href);
  await page.getByRole("heading", { name: "No path is chosen" }).waitFor();
  await look(page, "code-empty");
  await page.goto(new URL("#/session?benchmark=benchmark://steplake-v0/none", harness.server.url).href);
  await page.getByRole("alert").waitFor();
  await look(page, "error");
  const server = await harness.another(join(harness.folder, "nothing"));
  await page.goto(new URL("#/lake/graph", server.url).href);
  await page.getByRole("heading", { name: /There is no lake/ }).waitFor();
  await look(page, "no-lake");
}
