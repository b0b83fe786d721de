// The dashboard of a running recording.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { checkAccess, texts, until, type Harness } from "./harness.ts";

export function recordingTests(started: () => Harness): void {
  test("a lake that appears is shown", async () => {
    const harness = started();
    const lake = join(harness.folder, "new");
    const server = await harness.another(lake);
    const page = await harness.page("#/lake/recording", {}, server.url);
    await page.getByRole("heading", { name: /There is no lake/ }).waitFor();
    await harness.make(lake);
    await page.getByRole("heading", { name: "Nothing is being recorded" }).waitFor();
    assert.equal(await page.locator(".hint", { hasText: "steplake dedup" }).count(), 1);
  });

  test("the dashboard follows a recording in another process", async () => {
    const harness = started();
    const page = await harness.page("#/lake/recording");
    await page.getByRole("heading", { name: "Nothing is being recorded" }).waitFor();
    const steps = async () => Number((await texts(page.locator(".now .figure dd")))[0]?.replaceAll(",", ""));
    const before = await steps();
    const recording = harness.record(1_000_000);
    try {
      await page.getByRole("heading", { name: "Recording now" }).waitFor({ timeout: 30_000 });
      await until("more steps", async () => (await steps()) > before, 30_000);
      const some = await steps();
      await until("still more steps", async () => (await steps()) > some, 30_000);
      await page.locator(".runs td", { hasText: "recording" }).waitFor();
      await checkAccess(page, "the dashboard");
    } finally {
      recording.kill("SIGINT");
    }
    await page.getByRole("heading", { name: "Nothing is being recorded" }).waitFor({ timeout: 30_000 });
    assert.equal(await page.locator(".runs tbody tr").count(), 2);
    // The page says so of its own accord that the graph lacks steps, until it has them.
    const hint = page.locator(".hint", { hasText: "Steps were recorded since" });
    await hint.waitFor();
    await harness.dedup();
    await hint.waitFor({ state: "hidden" });
  });
}
