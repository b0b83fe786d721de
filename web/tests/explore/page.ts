// What all views share: the frame, keys, colours, the token.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { checkAccess, texts, type Harness } from "./harness.ts";

export function pageTests(started: () => Harness): void {
  test("the first view is there at once", async () => {
    const page = await started().page();
    await page.getByRole("heading", { name: "Choose a program" }).waitFor();
    const ms = await page.evaluate(() => performance.now());
    console.log(`    first view after ${Math.round(ms)} ms`);
    assert.ok(ms < 15_000, `${ms} ms`);
    await page.getByRole("option", { name: /steplake-v0\/huffman/ }).waitFor();
    await checkAccess(page, "the choice of a program");
  });

  test("keys lead through the views, and are listed", async () => {
    const page = await started().page();
    for (const [key, title] of [["4", "Lake"], ["3", "Features"], ["2", "Code"], ["1", "Session"]] as const) {
      await page.keyboard.press(key);
      await page.getByRole("navigation", { name: "Views" }).locator("[aria-current]", { hasText: title }).waitFor();
      assert.equal(await page.title(), `${title} · steplake`);
    }
    await page.keyboard.press("?");
    const dialog = page.getByRole("dialog", { name: "Keys" });
    await dialog.waitFor();
    await checkAccess(page, "the help");
    await page.keyboard.press("2"); // a dialog is open
    assert.equal(await page.title(), "Session · steplake");
    await dialog.getByRole("checkbox").uncheck();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    await page.keyboard.press("2"); // keys are off
    assert.equal(await page.title(), "Session · steplake");
  });

  test("a key counts from the moment that the page is drawn", async () => {
    const page = await started().page();
    await page.addInitScript(() => {
      const observer = new MutationObserver(() => {
        if (!document.querySelector("nav")) return;
        observer.disconnect();
        dispatchEvent(new KeyboardEvent("keydown", { key: "4" }));
      });
      observer.observe(document, { childList: true, subtree: true });
    });
    await page.reload();
    await page.waitForFunction(() => document.title === "Lake · steplake");
  });

  test("what shows nothing yet says what to do", async () => {
    const page = await started().page("#/code");
    for (const view of ["Code", "Features"]) {
      await page.getByRole("link", { name: view, exact: true }).click();
      await page.getByRole("heading", { name: "No path is chosen" }).waitFor();
      await checkAccess(page, `${view}, empty`);
    }
  });

  test("an address of nothing shows the first view", async () => {
    const harness = started();
    for (const hash of ["#/nowhere", "#nowhere", "#/nowhere?benchmark=", "#token=%", "#/lake/nowhere"]) {
      const page = await harness.page(hash);
      await page.locator(hash.includes("lake") ? ".lake" : ".chooser").waitFor();
    }
  });

  test("colours are those of the system, or chosen, and stay chosen", async () => {
    const page = await started().page("", { colorScheme: "dark" });
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.getByRole("heading", { name: "Choose a program" }).waitFor();
    const dark = await background();
    await checkAccess(page, "the choice of a program, dark");
    await page.getByRole("button", { name: "Colours: Auto" }).click();
    const light = await background();
    assert.notEqual(light, dark);
    await page.reload();
    await page.getByRole("button", { name: "Colours: Light" }).waitFor();
    assert.equal(await background(), light);
    await page.keyboard.press("t");
    assert.equal(await background(), dark);
  });

  test("without a lake, sessions work and the lake's view says how to record one", async () => {
    const harness = started();
    const server = await harness.another(join(harness.folder, "none"));
    const page = await harness.page("#/lake/graph", {}, server.url);
    await page.getByRole("heading", { name: /There is no lake/ }).waitFor();
    assert.match((await texts(page.getByLabel("Commands"))).join(), /generate.*dedup/);
    await checkAccess(page, "no lake");
    await page.keyboard.press("1");
    await page.getByRole("option", { name: /steplake-v0\/huffman/ }).waitFor();
  });

  test("the token of the link is kept for the tab, and taken out of the address", async () => {
    const harness = started();
    const file = await harness.file("token", "correct-horse-battery-staple-1234567890\n");
    const server = await harness.another(harness.lake, "--token-file", file);
    assert.match(server.url, /#token=./);
    const page = await harness.page("", {}, server.url);
    await page.getByRole("heading", { name: "Choose a program" }).waitFor();
    assert.doesNotMatch(page.url(), /token/);
    await page.reload();
    await page.getByRole("heading", { name: "Choose a program" }).waitFor();
    const stranger = await harness.page("", {}, server.url.replace(/#.*/, ""));
    await stranger.getByRole("alert").waitFor();
    assert.match((await texts(stranger.getByRole("alert"))).join(), /token/i);
    await checkAccess(stranger, "an error");
  });
}
