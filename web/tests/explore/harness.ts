// A real lake, a real `steplake explore` on it, and a real browser before that.

import axe from "axe-core";
import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { chromium, type Browser, type BrowserContextOptions, type Locator, type Page } from "playwright-core";

const run = promisify(execFile);
export const isPicturing = process.env["SCREENSHOTS"] === "yes";
const steplake = process.env["STEPLAKE"] ?? "steplake";

/** A machine that does other things as well may need this long. Nothing waits longer than it must. */
const PATIENCE_MS = 40_000;

export interface Server {
  url: string;
  stop: () => Promise<void>;
}

/** Starts `steplake explore` and waits until it says where the page is. */
async function serve(lake: string, extra: readonly string[] = []): Promise<Server> {
  const child = spawn(steplake, ["--lake", lake, "explore", "--listen", "127.0.0.1:0", "--no-open", ...extra], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  const url = await new Promise<string>((resolve, reject) => {
    child.stderr.setEncoding("utf8");
    child.stderr.on("data", (text: string) => {
      said += text;
      const found = /https?:\/\/\S+/.exec(said);
      if (found) resolve(found[0]);
    });
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`steplake explore ended with ${code}: ${said}`)));
  });
  return { url, stop: () => ended(child) };
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await gone;
}

export class Harness {
  private readonly pages: Page[] = [];
  private readonly servers: Server[] = [];
  private readonly faults: string[] = [];

  private constructor(readonly folder: string, readonly lake: string, readonly browser: Browser, readonly server: Server) {
    this.servers.push(server);
  }

  static async start(): Promise<Harness> {
    const folder = await mkdtemp(join(tmpdir(), "steplake-explore-"));
    const lake = join(folder, "lake");
    await steplakeOn(lake, "--quiet", "generate", "--benchmark", "benchmark://steplake-v0/*", "--policy", "explore",
      "--episodes", "75", "--episode-length", "20", "--seed", "1");
    await steplakeOn(lake, "--quiet", "dedup");
    const server = await serve(lake);
    const browser = await chromium.launch({
      executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
      args: ["--no-sandbox"],
    });
    return new Harness(folder, lake, browser, server);
  }

  /** Another server, on another lake or with options. */
  async another(lake: string, ...extra: string[]): Promise<Server> {
    const server = await serve(lake, extra);
    this.servers.push(server);
    return server;
  }

  /** A page of a new visitor. What it reports as an error, or asks another machine for, fails the tests. */
  async page(hash = "", options: BrowserContextOptions = {}, url = this.server.url): Promise<Page> {
    const context = await this.browser.newContext({
      viewport: { width: 1440, height: 900 }, permissions: ["clipboard-read", "clipboard-write"], ...options,
    });
    context.on("page", (page) => this.watch(page));
    const page = await context.newPage();
    this.pages.push(page);
    await page.goto(hash === "" ? url : new URL(hash, url).href);
    return page;
  }

  private watch(page: Page): void {
    page.setDefaultTimeout(PATIENCE_MS);
    page.on("pageerror", (error) => this.faults.push(`${error.stack ?? error.message}`));
    page.on("console", (message) => {
      // The browser reports answers that are errors by itself; the page shows them, which the tests check.
      const isAnswer = message.text().startsWith("Failed to load resource");
      if (message.type() === "error" && !isAnswer) this.faults.push(message.text());
    });
    page.on("request", (request) => {
      const isOurs = this.servers.some(({ url }) => request.url().startsWith(new URL(url).origin));
      if (!isOurs && !request.url().startsWith("blob:")) this.faults.push(`asked for ${request.url()}`);
    });
  }

  /** Fails if a page reported something since the last call. */
  checkFaults(): void {
    assert.deepEqual(this.faults.splice(0), []);
  }

  async closePages(): Promise<void> {
    for (const page of this.pages.splice(0)) await page.context().close();
  }

  async stop(): Promise<void> {
    await this.browser.close();
    for (const server of this.servers) await server.stop();
    await rm(this.folder, { recursive: true });
  }

  file(name: string, text: string): Promise<string> {
    const path = join(this.folder, name);
    return writeFile(path, text, { mode: 0o600 }).then(() => path);
  }

  /** Makes a lake that no dedup has counted. */
  async make(lake: string): Promise<void> {
    await steplakeOn(lake, "--quiet", "generate", "--benchmark", "benchmark://steplake-v0/huffman", "--episodes", "2");
  }

  async dedup(): Promise<void> {
    await steplakeOn(this.lake, "--quiet", "dedup");
  }

  /** Starts a recording into the lake, beside the server. */
  record(episodes: number): ChildProcess {
    return spawn(steplake, ["--quiet", "--lake", this.lake, "generate", "--benchmark", "benchmark://steplake-v0/*",
      "--episodes", String(episodes), "--seed", "2"], { stdio: "ignore" });
  }
}

const steplakeOn = (lake: string, ...args: string[]) => run(steplake, ["--lake", lake, ...args]);

/** Finds faults of accessibility, in what is shown now. */
export async function checkAccess(page: Page, where: string): Promise<void> {
  await page.evaluate(axe.source);
  const violations = await page.evaluate(async () => {
    const tool = (globalThis as unknown as { axe: typeof axe }).axe;
    const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const found = await tool.run(document, { runOnly: rules });
    return found.violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
  });
  assert.deepEqual(violations, [], `accessibility of ${where}`);
}

/** Waits until a condition holds. */
export async function until(what: string, holds: () => Promise<boolean>, timeoutMs = PATIENCE_MS): Promise<void> {
  const end = Date.now() + timeoutMs;
  while (!(await holds())) {
    if (Date.now() > end) assert.fail(`${what} did not happen within ${timeoutMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export async function texts(locator: Locator): Promise<string[]> {
  return (await locator.allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " ").trim());
}

/** Presses a key that leads to a field, until it is there: a view listens to keys once it is drawn. */
export async function pressTo(page: Page, key: string, field: Locator): Promise<void> {
  const isThere = () => field.evaluate((element) => element === document.activeElement);
  await until(`the field of ${key}`, async () => {
    if (await isThere()) return true;
    await page.keyboard.press(key);
    return isThere();
  });
}

/** Takes an action in a session by its name. */
export async function take(page: Page, action: string): Promise<void> {
  await pressTo(page, "a", page.locator(".action-search"));
  await page.keyboard.type(action);
  await page.keyboard.press("Enter");
  await page.locator(".path-list [aria-current] .name", { hasText: action }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
}

/** Starts a session of a program by the keyboard. */
export async function startSession(page: Page, benchmark: string): Promise<void> {
  await page.getByRole("heading", { name: "Choose a program" }).waitFor();
  await pressTo(page, "/", page.getByRole("combobox", { name: "Search a program" }));
  await page.keyboard.type(benchmark);
  await page.keyboard.press("Enter");
  await page.getByRole("tree").waitFor();
  await page.keyboard.press("Escape");
}

export const sqlField = (page: Page) => page.getByRole("textbox", { name: "Question in SQL" });

export async function ask(page: Page, sql: string): Promise<void> {
  await sqlField(page).click();
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Delete");
  await page.keyboard.type(sql);
  await page.keyboard.press("Control+Enter");
}

export async function picture(page: Page, name: string): Promise<void> {
  if (!isPicturing) return;
  await page.mouse.move(2, 2);
  await page.waitForTimeout(600);
  await page.screenshot({ path: join("..", "docs", `explore-${name}.png`) });
}
