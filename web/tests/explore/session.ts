// The view of a live session.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { checkAccess, picture, pressTo, startSession, take, texts, until, type Harness } from "./harness.ts";

const HUFFMAN = "benchmark://steplake-v0/huffman";
const cards = (page: Page) => page.getByRole("treeitem");
const path = (page: Page) => texts(page.locator(".path-list .name"));

export function sessionTests(started: () => Harness): void {
  test("a session is started, forked and undone by the keyboard alone", async () => {
    const page = await started().page();
    await startSession(page, HUFFMAN);
    await take(page, "mem2reg");
    await take(page, "instcombine");
    assert.deepEqual(await path(page), ["start", "mem2reg", "instcombine"]);
    // To the start, from there elsewhere: a fork.
    await page.getByRole("treeitem", { selected: true }).focus();
    await page.keyboard.press("Home");
    await take(page, "sroa");
    assert.deepEqual(await path(page), ["start", "sroa"]);
    assert.equal(await cards(page).count(), 4);
    await page.getByRole("treeitem", { selected: true }).focus();
    await page.keyboard.press("ArrowUp");
    await until("the card above", async () => (await path(page)).join() === "start,mem2reg");
    await page.keyboard.press("ArrowRight");
    await until("the child", async () => (await path(page)).join() === "start,mem2reg,instcombine");
    await page.keyboard.press("Delete");
    await until("the undo", async () => (await cards(page).count()) === 3);
    assert.deepEqual(await path(page), ["start", "mem2reg"]);
    await checkAccess(page, "a session");
  });

  test("a session is gone through by clicks, and its figures agree", async () => {
    const page = await started().page();
    await page.getByRole("option", { name: HUFFMAN }).click();
    for (const action of ["mem2reg", "instcombine", "simplifycfg", "gvn"]) {
      await page.getByRole("option", { name: action, exact: true }).click();
      await page.locator(".path-list [aria-current]", { hasText: action }).waitFor();
    }
    await page.getByRole("treeitem", { name: /^instcombine/ }).click();
    await page.getByRole("option", { name: "gvn", exact: true }).click();
    await page.locator(".path-list [aria-current]", { hasText: "gvn" }).waitFor();
    assert.deepEqual(await path(page), ["start", "mem2reg", "instcombine", "gvn"]);
    assert.equal(await cards(page).count(), 6);
    // The same action again leads to what is there.
    await page.getByRole("treeitem", { name: /^mem2reg/ }).click();
    await page.getByRole("option", { name: /^instcombine/ }).first().click();
    await page.locator(".path-list [aria-current]", { hasText: "instcombine" }).waitFor();
    assert.equal(await cards(page).count(), 6);
    // The cost that the head shows is that of the path's last step, and its share of -Oz follows.
    const cost = Number((await texts(page.locator(".path-list [aria-current] .value"))).at(-1)?.replaceAll(",", ""));
    assert.equal((await texts(page.locator(".figure dd")))[0], cost.toLocaleString("en"));
    const title = (await page.locator(".figure", { hasText: "against -Oz" }).getAttribute("title")) ?? "";
    const oz = Number(title.replace(/.*costs /, "").replaceAll(",", ""));
    const share = (cost / oz - 1) * 100;
    const shown = `${share > 0 ? "+" : "−"}${Math.abs(share).toFixed(1)}%`;
    assert.equal((await texts(page.locator(".figure", { hasText: "against -Oz" }).locator("dd")))[0], shown);
    await page.getByRole("button", { name: "Undo" }).click();
    await until("the undo", async () => (await cards(page).count()) === 2);
  });

  test("a chart without steps shows the baselines", async () => {
    const page = await started().page("", { colorScheme: "light" });
    await startSession(page, HUFFMAN);
    const chart = page.getByRole("region", { name: "Along the path" }).getByRole("img");
    await chart.locator("canvas").waitFor();
    // Lines in the colours of -Oz and -O3, half as long as the chart is wide: they are dashed.
    const counts = () => chart.locator("canvas").evaluate((canvas: HTMLCanvasElement) => {
      const { data, width } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height);
      const drawn = [[0xa3, 0x5a, 0x00], [0x74, 0x41, 0xb8]].map((colour) => {
        let count = 0;
        for (let at = 0; at < data.length; at += 4) {
          if (colour.every((part, channel) => Math.abs(data[at + channel]! - part) < 24)) count += 1;
        }
        return count;
      });
      return drawn.map((count) => count > width / 4);
    });
    await until("the lines", async () => (await counts()).every(Boolean));
    assert.match((await chart.getAttribute("aria-label")) ?? "", /over 0 steps, to [\d,]+, -Oz [\d,]+, -O3 [\d,]+$/);
  });

  test("a search without a result names a benchmark that there is", async () => {
    const page = await started().page();
    await page.getByRole("combobox", { name: "Search a program" }).fill("no such program");
    const hint = await page.getByText("Nothing matches.").locator("code").innerText();
    assert.match(hint, /^generator:\/\//);
    const { live } = await page.evaluate(async () =>
      (await (await fetch("/api/describe")).json()) as { live: { datasets: { examples: string[] }[] } });
    assert.ok(live.datasets.some(({ examples }) => examples.includes(hint)), hint);
  });

  test("trying all actions ranks them, and can be stopped", async () => {
    const page = await started().page();
    await startSession(page, HUFFMAN);
    for (const action of ["mem2reg", "inline", "loop-rotate"]) await take(page, action);
    await page.getByRole("button", { name: "Try all" }).click();
    await page.getByRole("button", { name: "Try all" }).waitFor({ timeout: 60_000 });
    const rewards = (await texts(page.locator(".picker li .value:not(.dim)"))).filter((text) => /^[+−]/.test(text));
    assert.ok(rewards.length > 5, "some actions change the program");
    const values = rewards.map((text) => Number(text.replace("−", "-")));
    assert.deepEqual(values, [...values].sort((a, b) => b - a));
    assert.ok((await cards(page).count()) < 15, "the tree is compact");
    await page.getByRole("checkbox", { name: "Compact" }).uncheck();
    assert.ok((await cards(page).count()) > 60, "every action is in the tree");
    await page.getByRole("checkbox", { name: "Compact" }).check();
    await page.getByTitle("Go to the best state").click();
    for (const action of ["instcombine", "simplifycfg"]) await take(page, action);
    await page.getByRole("treeitem", { name: /^simplifycfg/ }).last().click();
    await checkAccess(page, "a large session");
    await picture(page, "session");
  });

  test("a link opens the same state again: after a reload, elsewhere, and when the session is gone", async () => {
    const page = await started().page();
    await startSession(page, HUFFMAN);
    for (const action of ["mem2reg", "gvn"]) await take(page, action);
    await page.getByRole("treeitem", { name: /^mem2reg/ }).click();
    await take(page, "sroa");
    const link = page.url();
    assert.match(link, /benchmark=benchmark:\/\/steplake-v0\/huffman&/);
    await page.reload();
    await cards(page).first().waitFor();
    assert.equal(await cards(page).count(), 4, "the whole tree is back");
    assert.deepEqual(await path(page), ["start", "mem2reg", "sroa"]);
    const session = new URLSearchParams(link.split("?")[1]).get("session") ?? "";
    const status = await page.evaluate(async (id) => (await fetch(`/api/sessions/${id}`, { method: "DELETE" })).status, session);
    assert.equal(status, 200);
    const other = await started().page(new URL(link).hash);
    await cards(other).first().waitFor();
    assert.deepEqual(await path(other), ["start", "mem2reg", "sroa"]);
    assert.equal(await cards(other).count(), 3, "the link's path is played in a new session");
  });

  test("one's own program is compiled, and a broken one is refused in words", async () => {
    const page = await started().page();
    const source = page.getByLabel("Source of your own program");
    await source.fill("int f(int x) { retrun x; }");
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByRole("alert").waitFor();
    assert.match((await texts(page.getByRole("alert"))).join(), /retrun|error/i);
    await source.fill("int f(int x) { int y = x; return y + y; }");
    await page.keyboard.press("Control+Enter");
    await page.getByRole("tree").waitFor();
    await take(page, "mem2reg");
    await page.reload();
    await cards(page).first().waitFor();
    assert.deepEqual(await path(page), ["start", "mem2reg"]);
    await page.getByRole("button", { name: "Other program" }).click();
    await page.getByRole("button", { name: "LLVM IR" }).click();
    await source.fill("define i32 @twice(i32 %x) {\n  %y = add i32 %x, %x\n  ret i32 %y\n}\n");
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByRole("tree").waitFor();
    await take(page, "instcombine");
  });

  test("a link to one pasted program does not open another", async () => {
    const page = await started().page();
    const paste = async (text: string, action: string) => {
      await page.getByLabel("Source of your own program").fill(text);
      await page.getByRole("button", { name: "Start" }).click();
      await page.getByRole("tree").waitFor();
      await take(page, action);
    };
    await paste("int f(int x) { int y = x; return y + y; }", "mem2reg");
    const link = new URL(page.url()).hash;
    const costs = async () => (await texts(page.locator(".figure dd")))[0];
    const [title, cost] = [await page.locator(".title").innerText(), await costs()];
    await page.getByRole("button", { name: "Other program" }).click();
    await paste("int f(int x) { int y = x; for (int i = 0; i < x; ++i) y += i * y; return y; }", "sroa");
    assert.notEqual(await costs(), cost);
    await page.evaluate((hash) => (location.hash = hash), link);
    await until("the first program", async () => (await page.locator(".title").innerText()) === title);
    assert.deepEqual([await path(page), await costs()], [["start", "mem2reg"], cost]);
    // Another tab does not have the source, once the session has ended.
    const session = new URLSearchParams(page.url().split("?")[1]).get("session") ?? "";
    await page.evaluate((id) => fetch(`/api/sessions/${id}`, { method: "DELETE" }), session);
    const other = await started().page(new URL(page.url()).hash);
    await other.getByRole("alert").waitFor();
    assert.match((await texts(other.getByRole("alert"))).join(), /paste the program again/);
  });

  test("a link that is opened while all actions are tried is opened then", async () => {
    const page = await started().page();
    await startSession(page, "benchmark://steplake-v0/orbits");
    await take(page, "mem2reg");
    const link = new URL(page.url()).hash.replace(/&session=[^&]*/, "");
    await page.getByRole("button", { name: "Other program" }).click();
    await startSession(page, HUFFMAN);
    await page.getByRole("button", { name: "Try all" }).click();
    await page.getByRole("button", { name: "Stop" }).waitFor();
    await page.evaluate((hash) => (location.hash = hash), link);
    await page.locator(".title", { hasText: "orbits" }).waitFor();
    await until("the path of the link", async () => (await path(page)).join() === "start,mem2reg");
    assert.equal(await cards(page).count(), 2);
    // Nothing stops the next one.
    await page.getByRole("button", { name: "Try all" }).click();
    await page.getByRole("button", { name: "Try all" }).waitFor({ timeout: 60_000 });
    await page.getByRole("checkbox", { name: "Compact" }).uncheck();
    assert.ok((await cards(page).count()) > 60, "every action was tried");
    await page.getByRole("checkbox", { name: "Compact" }).check();
  });

  test("Enter takes the chosen row also when the list has the focus", async () => {
    const page = await started().page();
    await startSession(page, HUFFMAN);
    await page.getByRole("listbox", { name: "Search an action" }).focus();
    for (const key of ["ArrowDown", "ArrowDown", "ArrowUp", "Enter"]) await page.keyboard.press(key);
    await until("a step", async () => (await cards(page).count()) === 2);
  });

  test("a benchmark that does not exist is refused in words", async () => {
    const page = await started().page();
    await pressTo(page, "/", page.getByRole("combobox", { name: "Search a program" }));
    await page.keyboard.type("benchmark://steplake-v0/no_such_program");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").waitFor();
    assert.match((await texts(page.getByRole("alert"))).join(), /no_such_program/);
  });
}
