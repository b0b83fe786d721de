// The view of the code before and after a pass.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { checkAccess, picture, startSession, take, texts, until, type Harness } from "./harness.ts";

const side = (page: Page, name: "Before" | "After") => page.locator(".merge").getByRole("textbox", { name });
const steps = (page: Page) => page.locator(".steps .path-list button");

/** A function of one block with `count` times three instructions, all of which mem2reg changes. */
function longProgram(count: number): string {
  const lines = ["define i32 @long(i32 %x) {", "  %p = alloca i32", "  store i32 %x, ptr %p"];
  for (let at = 0; at < count; at += 1) {
    lines.push(`  %a${at} = load i32, ptr %p`, `  %b${at} = mul i32 %a${at}, ${at % 97}`, `  store i32 %b${at}, ptr %p`);
  }
  return [...lines, "  %r = load i32, ptr %p", "  ret i32 %r", "}", ""].join("\n");
}

export function codeTests(started: () => Harness): void {
  test("the code before and after every step is shown by function", async () => {
    const page = await started().page();
    await startSession(page, "benchmark://steplake-v0/huffman");
    for (const action of ["mem2reg", "always-inline", "instcombine", "simplifycfg", "gvn"]) await take(page, action);
    await page.getByRole("navigation", { name: "This state elsewhere" }).getByRole("link", { name: "Code" }).click();
    await side(page, "After").waitFor();
    assert.deepEqual(await texts(steps(page).locator(".name")),
      ["start", "mem2reg", "always-inline", "instcombine", "simplifycfg", "gvn"]);

    await steps(page).filter({ hasText: "mem2reg" }).click();
    await page.locator(".shown", { hasText: "Step 1" }).waitFor();
    await until("memory becomes values", async () =>
      (await side(page, "Before").innerText()).includes("alloca") && !(await side(page, "After").innerText()).includes("alloca i32"));
    const functions = page.getByRole("listbox", { name: "Search a function" }).getByRole("option");
    const changed = await texts(functions.locator(".name"));
    assert.ok(changed.length > 3);
    await functions.nth(1).click();
    await page.locator(".text h2", { hasText: changed[1] ?? "?" }).waitFor();
    assert.match(page.url(), /function=/);

    // Hidden: the step that changes nothing. It comes back, as the choice is the page's.
    await page.keyboard.press("h");
    await until("the step without change hides", async () => (await steps(page).count()) < 6);
    assert.ok(!(await texts(steps(page).locator(".name"))).includes("always-inline"));
    await page.getByRole("checkbox", { name: /without change/ }).uncheck();
    await page.getByLabel("Search a pass").fill("inst");
    assert.deepEqual(await texts(steps(page).locator(".name")), ["instcombine"]);
    await page.getByLabel("Search a pass").press("Enter");
    await page.locator(".shown", { hasText: "Step 3" }).waitFor();
    await page.getByLabel("Search a pass").press("Escape");

    await page.keyboard.press("j");
    await page.locator(".shown", { hasText: "Step 4" }).waitFor();
    await page.keyboard.press("k");
    await page.keyboard.press("b");
    await until("the start is compared with", async () => (await side(page, "Before").innerText()).includes("alloca"));
    await page.keyboard.press("b");
    await page.keyboard.press("]");
    await page.reload();
    await page.locator(".shown", { hasText: "Step 3" }).waitFor();
    await side(page, "After").waitFor();
    await checkAccess(page, "the code");
    await picture(page, "code");
  });

  test("the command of the path is copied, and is the one that is shown", async () => {
    const page = await started().page();
    await startSession(page, "benchmark://steplake-v0/orbits");
    for (const action of ["mem2reg", "gvn"]) await take(page, action);
    await page.keyboard.press("2");
    const shown = page.getByLabel("Command of the path");
    await shown.waitFor();
    await page.keyboard.press("c");
    await page.locator("#copy-command", { hasText: "Copied" }).waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(copied, await shown.innerText());
    assert.match(copied, /^opt.*-passes=.*mem2reg.*gvn/);
  });

  test("10,000 lines of IR do not freeze it", async () => {
    const page = await started().page();
    await page.getByLabel("Open a file").setInputFiles(await started().file("long.ll", longProgram(3333)));
    await page.getByRole("button", { name: "LLVM IR", pressed: true }).waitFor();
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByRole("tree").waitFor();
    await take(page, "mem2reg");
    await page.evaluate(() => {
      const tasks: number[] = [];
      new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration)))
        .observe({ entryTypes: ["longtask"] });
      Object.assign(globalThis, { tasks });
    });
    const begin = Date.now();
    await page.keyboard.press("2");
    await side(page, "After").waitFor();
    const shownMs = Date.now() - begin;
    assert.match((await texts(page.locator(".text .counts"))).join(), /of 10,00\d lines/);
    // Through the text and back, then to a change, as a reader would.
    await page.locator(".merge").hover();
    for (let at = 0; at < 20; at += 1) await page.mouse.wheel(0, at % 2 === 0 ? 60_000 : -20_000);
    await page.keyboard.press("]");
    await page.keyboard.press("k");
    await page.locator(".shown", { hasText: "The program as it was" }).waitFor();
    const tasks = await page.evaluate(() => (globalThis as unknown as { tasks: number[] }).tasks);
    const longest = Math.round(Math.max(0, ...tasks));
    console.log(`    10,000 lines: shown after ${shownMs} ms, longest task ${longest} ms`);
    assert.ok(shownMs < 20_000, `${shownMs} ms`);
    assert.ok(longest < 4000, `${longest} ms`);
  });
}
