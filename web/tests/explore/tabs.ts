// Two tabs, and one session.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { startSession, take, texts, until, type Harness } from "./harness.ts";

const cards = (page: Page) => page.getByRole("treeitem");
const path = (page: Page) => texts(page.locator(".path-list .name"));
const sessionOf = (page: Page) => new URLSearchParams(page.url().split("?")[1]).get("session") ?? "";
const nodesOf = (page: Page, session: string): Promise<number | string> =>
  page.evaluate(async (id) => {
    const answer = await fetch(`/api/sessions/${id}`);
    return answer.ok ? ((await answer.json()) as { nodes: unknown[] }).nodes.length : answer.status;
  }, session);

/** A session with a fork: mem2reg, and under it gvn and sroa. */
async function first(harness: Harness): Promise<Page> {
  const page = await harness.page();
  await startSession(page, "benchmark://steplake-v0/huffman");
  for (const action of ["mem2reg", "gvn"]) await take(page, action);
  await page.getByRole("treeitem", { name: /^mem2reg/ }).click();
  await take(page, "sroa");
  return page;
}

/** Another tab of the same browser. */
async function tab(page: Page, url: string): Promise<Page> {
  const other = await page.context().newPage();
  await other.goto(url);
  await cards(other).first().waitFor();
  return other;
}

export function tabTests(started: () => Harness): void {
  test("a copied link opens a fork of the session, and neither tab changes what the other shows", async () => {
    const page = await first(started());
    await page.getByRole("button", { name: "Copy link" }).click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    const link = await page.evaluate(() => navigator.clipboard.readText());
    const session = sessionOf(page);
    const other = await tab(page, link);
    assert.deepEqual([await cards(other).count(), await path(other)], [4, ["start", "mem2reg", "sroa"]]);
    await until("the name of the fork in its address", async () => sessionOf(other) !== session);
    const fork = sessionOf(other);
    await take(other, "instcombine");
    await other.getByRole("treeitem", { name: /^gvn/ }).click();
    await other.getByRole("button", { name: "Undo" }).click();
    await until("the undo", async () => (await cards(other).count()) === 4);
    assert.deepEqual([await nodesOf(page, session), await nodesOf(page, fork)], [4, 4]);
    // What it shows is its own after a reload, and in the first tab everything goes on.
    await other.reload();
    await cards(other).first().waitFor();
    assert.equal(sessionOf(other), fork);
    await page.getByRole("treeitem", { name: /^gvn/ }).click();
    await take(page, "simplifycfg");
    await page.reload();
    await cards(page).first().waitFor();
    assert.deepEqual([sessionOf(page), await cards(page).count()], [session, 5]);
  });

  test("another program in one tab ends nothing that another tab shows", async () => {
    const page = await first(started());
    const session = sessionOf(page);
    const other = await tab(page, page.url());
    await until("the name of the fork in its address", async () => sessionOf(other) !== session);
    const fork = sessionOf(other);
    await other.getByRole("button", { name: "Other program" }).click();
    await other.getByRole("heading", { name: "Choose a program" }).waitFor();
    await until("the end of the fork", async () => (await nodesOf(page, fork)) === 404);
    assert.equal(await nodesOf(page, session), 4);
    await take(page, "instcombine");
    // The same the other way round, and for a program that is started in the place of another.
    const third = await tab(page, page.url());
    await page.getByRole("button", { name: "Other program" }).click();
    await startSession(page, "benchmark://steplake-v0/orbits");
    await until("the end of the first session", async () => (await nodesOf(page, session)) === 404);
    await take(third, "simplifycfg");
    assert.equal(await cards(third).count(), 6);
  });

  test("a tab that is duplicated has a fork, though it begins with the storage of the first", async () => {
    const page = await first(started());
    await page.reload();
    await cards(page).first().waitFor();
    const session = sessionOf(page);
    const opening = page.waitForEvent("popup");
    await page.evaluate(() => void window.open(location.href));
    const other = await opening;
    await cards(other).first().waitFor();
    assert.equal(await cards(other).count(), 4);
    await until("the name of the fork in its address", async () => sessionOf(other) !== session);
    // Neither does a link inside of the page that is opened in a new tab.
    const code = await codeInNewTab(page);
    assert.notEqual(sessionOf(code), session);
    await other.getByRole("button", { name: "Other program" }).click();
    await take(page, "instcombine");
    assert.equal(sessionOf(page), session);
  });

  test("a link leads to a node that was undone since", async () => {
    const page = await first(started());
    const link = page.url();
    await page.getByRole("button", { name: "Undo" }).click();
    await until("the undo", async () => (await cards(page).count()) === 3);
    const other = await tab(page, link);
    assert.deepEqual([await cards(other).count(), await path(other)], [4, ["start", "mem2reg", "sroa"]]);
  });
}

/** The view of the code in a new tab. */
async function codeInNewTab(page: Page): Promise<Page> {
  const opening = page.context().waitForEvent("page");
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Code" }).click({ modifiers: ["Control"] });
  const code = await opening;
  const session = sessionOf(page);
  await until("the fork", async () => sessionOf(code) !== session && sessionOf(code) !== "");
  await code.locator(".merge").waitFor();
  return code;
}
