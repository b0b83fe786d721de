// The view of the lake.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { ask, checkAccess, picture, pressTo, sqlField, texts, until, type Harness } from "./harness.ts";

/** Moves over the picture until a state is under the mouse, and clicks it. */
async function clickState(page: Page): Promise<void> {
  const box = await page.locator(".picture").boundingBox();
  assert.ok(box);
  for (let at = 0; at < 4000; at += 1) {
    const angle = at * 2.4;
    const far = Math.sqrt(at / 4000) * Math.min(box.width, box.height) * 0.4;
    await page.mouse.move(box.x + box.width / 2 + far * Math.cos(angle), box.y + box.height / 2 + far * Math.sin(angle));
    if ((await page.locator(".hovered").count()) > 0) {
      await page.mouse.down();
      await page.mouse.up();
      return;
    }
  }
  assert.fail("no state was found in the picture");
}

/** How many states the picture says it has. */
async function states(page: Page): Promise<number> {
  const said = (await texts(page.locator(".picture .counts"))).join();
  return Number(/^([\d,]+) states?/.exec(said)?.[1]?.replaceAll(",", "") ?? Number.NaN);
}

export function lakeTests(started: () => Harness): void {
  test("a state is clicked in the graph, and its card leads on", async () => {
    const page = await started().page("#/lake/graph");
    await page.locator(".picture .legend").waitFor();
    const all = await states(page);
    await page.getByLabel("Program").selectOption({ label: "huffman" });
    await until("the program's graph", async () => (await states(page)) < all / 2);
    await clickState(page);
    await page.getByRole("heading", { name: /^State/ }).waitFor();
    const state = new URLSearchParams(page.url().split("?")[1]).get("state") ?? "";
    assert.match(state, /^[0-9a-f]{40}$/);
    await page.locator(".of-program", { hasText: "huffman" }).waitFor();
    await checkAccess(page, "the graph and a state");
    await page.reload();
    await page.getByRole("heading", { name: `State ${state.slice(0, 8)}` }).waitFor();
    for (const name of [/^Out/, /^In/]) {
      await page.getByRole("button", { name }).click();
      await page.locator(".neighbours, .card-panel .nothing").first().waitFor();
    }
    await page.getByRole("button", { name: "IR", exact: true }).click();
    await page.locator(".ir-text").getByRole("textbox", { name: "IR" }).waitFor();
    await checkAccess(page, "the IR of a state");
  });

  test("the graph is worked by keys and searched by ids", async () => {
    const page = await started().page("#/lake/graph");
    await page.locator(".picture .legend").waitFor();
    await page.locator(".picture").focus();
    for (const key of ["+", "+", "ArrowLeft", "ArrowUp", "-", "0"]) await page.keyboard.press(key);
    await page.getByRole("button", { name: "Depth" }).click();
    await page.locator(".legend", { hasText: "steps from a start" }).waitFor();
    await pressTo(page, "/", page.getByLabel("Search a state by its id"));
    await page.keyboard.type("zzzz");
    await page.keyboard.press("Enter");
    await page.locator(".state-find [role=alert]").waitFor();
    await page.getByRole("checkbox", { name: "All transitions" }).uncheck();
    await page.locator(".picture .legend").waitFor();
  });

  test("the best path of a program is opened as code, as features, and live", async () => {
    const page = await started().page("#/lake/best");
    const row = page.locator("table tbody tr", { hasText: "huffman" });
    await row.waitFor();
    await checkAccess(page, "the best paths");
    const [best, state] = [(await texts(row.locator("td")))[2] ?? "", (await texts(row.locator("td a").first())).join()];
    await row.getByRole("link", { name: "Code" }).click();
    await page.locator(".merge").getByRole("textbox", { name: "After" }).waitFor();
    assert.match((await texts(page.getByLabel("Command of the path"))).join(), /-passes=/);
    await page.locator(".steps .path-list button").last().click();
    await page.locator(".shown", { hasText: `→ ${best}` }).waitFor();
    await page.keyboard.press("3");
    await page.locator(".tracks button").first().waitFor();
    await checkAccess(page, "the features of a recorded path");
    await page.goBack();
    await page.keyboard.press("4");
    await row.locator("a", { hasText: state }).click();
    await page.getByRole("heading", { name: `State ${state}` }).waitFor();
    await page.getByLabel("Program").selectOption("");
    await until("the whole graph", async () => (await states(page)) > 300);
    await page.goto(new URL(`#/lake/graph?state=${await fullId(page, state)}`, started().server.url).href);
    await page.getByLabel("Show all").click();
    await page.locator(".path-list").waitFor();
    await picture(page, "lake");
    await page.getByRole("link", { name: "Go on from here, live" }).click();
    await page.getByRole("tree").waitFor();
    await until("the recorded cost, live", async () => (await texts(page.locator(".figure dd")))[0] === best);
  });

  test("the frontier leads to where it is worth going on", async () => {
    const page = await started().page("#/lake/frontier");
    const rows = page.locator("table tbody tr");
    await rows.first().waitFor();
    await checkAccess(page, "the frontier");
    await page.getByLabel("Program").selectOption({ label: "orbits" });
    await until("only one program", async () => new Set(await texts(rows.locator("td:nth-child(2)"))).size === 1);
    assert.equal((await texts(rows.first().locator("td")))[1], "orbits");
    const cost = (await texts(rows.first().locator("td")))[2];
    await rows.first().getByRole("button", { name: "Go on live" }).click();
    await page.getByRole("tree").waitFor();
    await until("the recorded cost, live", async () => (await texts(page.locator(".figure dd")))[0] === cost);
  });

  test("questions in SQL are answered as table, plot and CSV", async () => {
    const page = await started().page("#/lake/sql");
    await sqlField(page).waitFor();
    await ask(page, "SELECT action_name(action) AS action, count(*) AS steps FROM steps WHERE action IS NOT NULL GROUP BY 1 ORDER BY 2 DESC LIMIT 12");
    const result = page.getByRole("region", { name: "Answer" });
    await result.locator("[role=status]", { hasText: "12 rows" }).waitFor();
    const first = await texts(result.locator("tbody tr").first().locator("td"));
    const downloading = page.waitForEvent("download");
    await result.getByRole("button", { name: "Save as CSV" }).click();
    const csv = await readFile(await (await downloading).path(), "utf8");
    assert.ok(csv.startsWith(`action,steps\r\n${first.join(",")}\r\n`), csv);
    await result.getByRole("button", { name: "Plot" }).click();
    await result.locator(".chart canvas").waitFor();
    await checkAccess(page, "a plot of an answer");
    await page.reload();
    await result.locator("[role=status]", { hasText: "12 rows" }).waitFor();
    await ask(page, "SELECT nonsense FROM steps");
    await page.getByRole("alert").waitFor();
    assert.match((await texts(page.getByRole("alert"))).join(), /nonsense/);
    await ask(page, "SELECT state_id FROM steps LIMIT 3");
    await result.locator("tbody a").first().click();
    await page.getByRole("heading", { name: /^State/ }).waitFor();
  });

  test("named questions are chosen, filled in and asked", async () => {
    const page = await started().page("#/lake/sql");
    await page.getByRole("combobox", { name: "Question" }).selectOption("noop_rate");
    const result = page.getByRole("region", { name: "Answer" });
    await result.locator("tbody tr").nth(20).waitFor();
    const all = await result.locator("tbody tr").count();
    await page.getByLabel("tries").fill("20");
    await page.getByRole("button", { name: "Run" }).click();
    await until("fewer actions", async () => {
      const rows = await result.locator("tbody tr").count();
      return rows > 0 && rows < all;
    });
    await checkAccess(page, "a named question");
    // Another question begins without the answer to the one before.
    await page.getByRole("combobox", { name: "Question" }).selectOption("opcode_delta");
    await page.getByText("Give state, action.").waitFor();
    assert.equal(await result.count(), 0);
    assert.equal(await page.getByRole("button", { name: "Edit as SQL" }).count(), 0);
  });

  test("the answer is that to the question of the address", async () => {
    const page = await started().page("#/lake/sql?q=SELECT 18446744073709551615 AS large");
    const cells = page.getByRole("region", { name: "Answer" }).locator("tbody td");
    const isShown = (text: string) => until(text, async () => (await texts(cells)).join() === text);
    await isShown("18446744073709551615");
    await page.evaluate(() => (location.hash = "#/lake/sql?q=SELECT 2 AS two"));
    await isShown("2");
    assert.match(await sqlField(page).innerText(), /SELECT 2 AS two/);
    await page.goBack();
    await isShown("18446744073709551615");
    assert.match(await sqlField(page).innerText(), /large/);
    await ask(page, "SELECT 3");
    await isShown("3");
    assert.match(page.url(), /q=SELECT%203/);
    await page.getByRole("combobox", { name: "Question" }).selectOption("noop_rate");
    await page.getByRole("button", { name: "Edit as SQL" }).click();
    await cells.first().waitFor();
    assert.match(await sqlField(page).innerText(), /tries|20|noop/i);
  });
}

/** The whole id of a state in the graph, from its first digits. */
const fullId = (page: Page, start: string): Promise<string> =>
  page.evaluate(async (wanted) => {
    const graph = (await (await fetch("/api/lake/graph")).json()) as { states: string[] };
    return graph.states.find((state) => state.startsWith(wanted)) ?? "";
  }, start);
