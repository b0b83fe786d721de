// The view of features.

import assert from "node:assert/strict";
import { test } from "node:test";
import { checkAccess, picture, pressTo, startSession, take, texts, until, type Harness } from "./harness.ts";

export function featureTests(started: () => Harness): void {
  test("features change along a path, as lines and step by step", async () => {
    const page = await started().page();
    await startSession(page, "benchmark://steplake-v0/huffman");
    for (const action of ["loop-rotate", "mem2reg", "always-inline", "instcombine", "inline", "simplifycfg", "gvn", "loop-unroll-full"]) {
      await take(page, action);
    }
    const cost = (await texts(page.locator(".figure dd")))[0];
    await page.getByRole("navigation", { name: "This state elsewhere" }).getByRole("link", { name: "Features" }).click();
    const tracks = page.locator(".tracks button");
    await tracks.first().waitFor();
    // The number of instructions among the features is the cost that the session showed.
    const total = tracks.filter({ hasText: "TotalInsts" });
    assert.equal((await texts(total.locator(".value")))[0], cost);
    assert.equal(await page.locator(".heat tbody tr").count(), 8);
    assert.match((await texts(page.locator(".heat tbody th")))[1] ?? "", /^2 ?mem2reg$/);
    await picture(page, "features");
    const pressed = tracks.and(page.locator("[aria-pressed=true]"));
    const before = await pressed.count();
    await pressed.first().click();
    assert.equal(await pressed.count(), before - 1);
    await pressTo(page, "/", page.getByLabel("Search a feature"));
    await page.keyboard.type("Alloca");
    await until("the search", async () => (await texts(tracks.locator(".name"))).join() === "Alloca");
    await page.getByRole("button", { name: "Autophase" }).click();
    await page.locator(".small h2", { hasText: "Autophase" }).waitFor();
    await checkAccess(page, "the features");
    await page.locator(".heat tbody a", { hasText: "instcombine" }).click();
    await page.locator(".shown", { hasText: "Step 4" }).waitFor();
  });

  test("the whole lake says what an action does to features", async () => {
    const page = await started().page("#/features?space_shown=lake");
    const row = page.locator(".heat tbody tr", { hasText: "mem2reg" }).first();
    await row.waitFor();
    const columns = await texts(page.locator(".heat thead th"));
    const alloca = (await texts(row.locator("td")))[columns.indexOf("Alloca") - 1];
    assert.match(alloca ?? "", /^−/, "mem2reg removes allocas");
    await checkAccess(page, "the effects of actions");
    await page.getByLabel("Search an action").fill("sroa");
    await until("the search", async () => (await page.locator(".heat tbody tr").count()) <= 2);
  });
}
