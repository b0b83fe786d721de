// Goes through the explorer as a person would, before a real server. See scripts/test-web.sh.

import { after, afterEach, before, describe } from "node:test";
import { codeTests } from "./explore/code.ts";
import { featureTests } from "./explore/features.ts";
import { Harness } from "./explore/harness.ts";
import { lakeTests } from "./explore/lake.ts";
import { narrowTests } from "./explore/narrow.ts";
import { pageTests } from "./explore/page.ts";
import { recordingTests } from "./explore/recording.ts";
import { sessionTests } from "./explore/session.ts";
import { tabTests } from "./explore/tabs.ts";

let harness: Harness | undefined;

/** What is started before the first test. */
function started(): Harness {
  if (!harness) throw new Error("the server does not run");
  return harness;
}

describe("the explorer", { concurrency: 1 }, () => {
  before(async () => {
    harness = await Harness.start();
  });
  afterEach(async () => {
    await harness?.closePages();
    harness?.checkFaults();
  });
  after(async () => harness?.stop());
  pageTests(started);
  sessionTests(started);
  tabTests(started);
  codeTests(started);
  featureTests(started);
  lakeTests(started);
  narrowTests(started);
  recordingTests(started);
});
