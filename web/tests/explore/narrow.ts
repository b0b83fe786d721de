// The page on the screen of a telephone, and with fingers.

import { test } from "node:test";
import type { Page } from "playwright-core";
import { checkAccess, type Harness } from "./harness.ts";
import { checkReach } from "./reach.ts";
import { tourEmpty, tourLake, tourLive } from "./tour.ts";

const SCREENS = [
  { width: 320, height: 568, scheme: "light" },
  { width: 390, height: 844, scheme: "dark" },
  { width: 1440, height: 900, scheme: "light" },
] as const;

async function look(page: Page, where: string): Promise<void> {
  await checkReach(page, where);
  // CodeMirror's list of completions is gone through by the arrows of its field, which axe does not see.
  if (where !== "lake-completion") await checkAccess(page, where);
}

export function narrowTests(started: () => Harness): void {
  for (const { width, height, scheme } of SCREENS) {
    const options = { viewport: { width, height }, colorScheme: scheme };
    test(`everything is within reach of a screen ${width} pixels wide, ${scheme}: live`, async () => {
      await tourLive(await started().page("", options), look);
    });
    test(`everything is within reach of a screen ${width} pixels wide, ${scheme}: the lake`, async () => {
      await tourLake(await started().page("#/lake/graph", options), look);
    });
  }
  test("what is empty or wrong is within reach of a narrow screen", async () => {
    const page = await started().page("", { viewport: { width: 320, height: 568 } });
    await tourEmpty(started(), page, look);
  });
}
