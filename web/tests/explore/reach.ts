// Whether everything in the page can be reached: on a narrow screen, and with a finger.

import assert from "node:assert/strict";
import type { Page } from "playwright-core";

/** The least width and height of a target (WCAG 2.2, 2.5.8). */
const TARGET_PX = 24;

/** What may be wider than the screen, and is scrolled by itself: tables, and the tree. */
const WIDE = ".scroll, .tree-frame";

/** Finds targets that are too small or cut off, and what is wider than the screen. */
export async function checkReach(page: Page, where: string): Promise<void> {
  const found = await page.evaluate(problemsOf, { least: TARGET_PX, wide: WIDE });
  assert.deepEqual(found, [], `reach of ${where}, ${page.viewportSize()?.width} pixels wide`);
}

/** Runs in the page. */
function problemsOf({ least, wide }: { least: number; wide: string }): string[] {
  const TARGETS = "a[href], button, input, select, textarea, [role=option], [role=treeitem], [tabindex='0']";
  const problems = new Set<string>();
  const all = (root: Document | ShadowRoot): Element[] =>
    [...root.querySelectorAll("*")].flatMap((one) => [one, ...(one.shadowRoot ? all(one.shadowRoot) : [])]);
  const parentOf = (one: Element): Element | null =>
    one.parentElement ?? (one.getRootNode() instanceof ShadowRoot ? (one.getRootNode() as ShadowRoot).host : null);
  const nameOf = (one: Element): string => one.outerHTML.replace(/>[^]*/, ">").slice(0, 120);
  const page = document.documentElement;
  if (page.scrollWidth > page.clientWidth) problems.add(`the page is ${page.scrollWidth} wide`);
  const elements = all(document).filter((one) => one.checkVisibility());
  for (const one of elements) {
    const isScrolled = one.scrollWidth > one.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(one).overflowX);
    if (isScrolled && !one.matches(wide)) problems.add(`scrolls to ${one.scrollWidth} of ${one.clientWidth}: ${nameOf(one)}`);
  }
  for (const one of elements.filter((each) => each.matches(TARGETS) && !each.matches(".skip"))) {
    // A label is a part of the target of its field, and a link in a sentence is as high as its line.
    const box = (one.closest("label") ?? one).getBoundingClientRect();
    const isSmall = box.width < least || box.height < least;
    if (isSmall && !(one.matches("a") && one.closest("p"))) {
      problems.add(`${box.width.toFixed(1)} × ${box.height.toFixed(1)}: ${nameOf(one)}`);
    }
    cut(one, box);
  }
  return [...problems].slice(0, 8);

  /** Notes what an element around a target cuts off of it and cannot scroll to. */
  function cut(target: Element, { left, right, top, bottom }: DOMRect): void {
    let [x, y] = [[left, right] as const, [top, bottom] as const];
    for (let around = parentOf(target); around; around = parentOf(around)) {
      const { overflowX, overflowY, position } = getComputedStyle(around);
      const box = around.getBoundingClientRect();
      const isOutside = (place: readonly [number, number], from: number, to: number) =>
        place[0] < from - 1 || place[1] > to + 1;
      // What can be scrolled to is where the scrolled element is.
      if (/auto|scroll/.test(overflowX)) x = [box.left, box.right];
      else if (overflowX !== "visible" && isOutside(x, box.left, box.right)) {
        problems.add(`cut off sideways by ${nameOf(around)}: ${nameOf(target)}`);
        return;
      }
      if (/auto|scroll/.test(overflowY)) y = [box.top, box.bottom];
      else if (overflowY !== "visible" && isOutside(y, box.top, box.bottom)) {
        problems.add(`cut off below by ${nameOf(around)}: ${nameOf(target)}`);
        return;
      }
      if (position === "fixed") return;
    }
    if (x[0] < -1 || x[1] > page.clientWidth + 1 || y[1] > page.clientHeight + 1) {
      problems.add(`outside of the screen: ${nameOf(target)}`);
    }
  }
}
