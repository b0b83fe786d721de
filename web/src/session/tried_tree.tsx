// The tree of what was tried, drawn from left to right.

import { hierarchy, tree as tidyTree, type HierarchyPointNode } from "d3-hierarchy";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { number, signed } from "../format.ts";
import type { SessionTree } from "../tree.ts";
import type { SessionNode } from "../wire.ts";

const CARD = { width: 128, height: 38 };
const STEP = { x: CARD.width + 34, y: CARD.height + 8 };
const MARGIN = 16;
const px = (length: number): string => `${length}px`;

interface Props {
  tree: SessionTree;
  selected: number;
  path: readonly number[];
  best: number | null;
  isCompact: boolean;
  onSelect: (id: number) => void;
  onUndo: () => void;
}

interface Place {
  node: SessionNode;
  x: number;
  y: number;
  hidden: number;
  parent: Place | null;
}

/** Of the ends below one node, a compact tree shows the best. */
const ENDS_MAX = 8;

/** The children that are drawn: in a compact tree, ends that changed nothing or are not among the best are not. */
function shownChildren({ children }: SessionTree, path: ReadonlySet<number>, isCompact: boolean) {
  return (node: SessionNode): SessionNode[] => {
    const all = children.get(node.id) ?? [];
    if (!isCompact) return all;
    const isEnd = (child: SessionNode) => !path.has(child.id) && !children.has(child.id);
    const ends = all.filter((child) => isEnd(child) && child.is_changed && !child.failure);
    const best = new Set(ends.sort((a, b) => (a.cost ?? Infinity) - (b.cost ?? Infinity)).slice(0, ENDS_MAX));
    return all.filter((child) => !isEnd(child) || child.failure || best.has(child));
  };
}

function layOut(tree: SessionTree, path: ReadonlySet<number>, isCompact: boolean): Place[] {
  const { root, children } = tree;
  const shown = hierarchy(root, shownChildren(tree, path, isCompact));
  const placed = tidyTree<SessionNode>().nodeSize([STEP.y, STEP.x]).separation(() => 1)(shown);
  let top = 0;
  placed.each((point) => (top = Math.min(top, point.x)));
  const places = new Map<HierarchyPointNode<SessionNode>, Place>();
  placed.each((point) => {
    const all = children.get(point.data.id)?.length ?? 0;
    places.set(point, {
      node: point.data,
      x: MARGIN + point.y,
      y: MARGIN + point.x - top,
      hidden: all - (point.children?.length ?? 0),
      parent: point.parent ? (places.get(point.parent) ?? null) : null,
    });
  });
  return [...places.values()];
}

export function TriedTree(props: Props) {
  const { tree, selected, path, best, isCompact, onSelect, onUndo } = props;
  const onPath = useMemo(() => new Set(path), [path]);
  const places = useMemo(() => layOut(tree, onPath, isCompact), [tree, onPath, isCompact]);
  const frame = useRef<HTMLDivElement>(null);
  const width = Math.max(...places.map((place) => place.x)) + CARD.width + MARGIN + 24;
  const height = Math.max(...places.map((place) => place.y)) + CARD.height + MARGIN;

  useEffect(() => {
    const card = frame.current?.querySelector<HTMLElement>("[aria-selected=true]");
    if (!card || !frame.current) return;
    reveal(frame.current, card);
    if (frame.current.contains(document.activeElement)) card.focus({ preventScroll: true });
  }, [selected, places]);

  const onKeyDown = (event: KeyboardEvent) => {
    const to = target(event.key, props, places);
    if (event.key === "Delete" || event.key === "Backspace") onUndo();
    else if (to !== undefined) onSelect(to);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="tree-frame" ref={frame} onKeyDown={onKeyDown}>
      <div class="tree" role="tree" aria-label="Tree of what was tried" style={{ width: px(width), height: px(height) }}>
        <svg aria-hidden="true" width={width} height={height}>
          {places.map(({ node, x, y, parent }) => parent && (
            <path key={node.id} d={curve(parent, { x, y })} class={onPath.has(node.id) ? "on-path" : ""} />
          ))}
        </svg>
        {places.map((place) => (
          <Card key={place.node.id} place={place} isSelected={place.node.id === selected}
            isOnPath={onPath.has(place.node.id)} isBest={place.node.id === best && place.parent !== null}
            onSelect={onSelect} />
        ))}
      </div>
    </div>
  );
}

/** Scrolls to a card, with room for what comes after it. */
function reveal(frame: HTMLElement, card: HTMLElement): void {
  const { offsetLeft: left, offsetTop: top } = card;
  const isWide = left - STEP.x >= frame.scrollLeft && left + 2 * STEP.x <= frame.scrollLeft + frame.clientWidth;
  if (!isWide) frame.scrollLeft = left + 2 * STEP.x + MARGIN - frame.clientWidth;
  const isHigh = top >= frame.scrollTop && top + CARD.height <= frame.scrollTop + frame.clientHeight;
  if (!isHigh) frame.scrollTop = top - frame.clientHeight / 2 + CARD.height / 2;
}

function curve(from: { x: number; y: number }, to: { x: number; y: number }): string {
  const x = from.x + CARD.width;
  const y = from.y + CARD.height / 2;
  const end = to.y + CARD.height / 2;
  const middle = (x + to.x) / 2;
  return `M${x} ${y}C${middle} ${y} ${middle} ${end} ${to.x} ${end}`;
}

function Card({ place, isSelected, isOnPath, isBest, onSelect }: {
  place: Place;
  isSelected: boolean;
  isOnPath: boolean;
  isBest: boolean;
  onSelect: (id: number) => void;
}) {
  const { node, x, y, hidden, parent } = place;
  const reward = node.reward ?? 0;
  const tone = node.failure ? "failed" : parent && !node.is_changed ? "unchanged"
    : reward > 0 ? "gain" : reward < 0 ? "loss" : "even";
  const name = node.action?.name ?? "start";
  return (
    <div role="treeitem" tabIndex={isSelected ? 0 : -1} aria-selected={isSelected} aria-level={node.depth + 1}
      title={node.failure ? node.failure.detail : name}
      class={`card ${tone} ${isOnPath ? "on-path" : ""} ${isBest ? "best" : ""}`}
      style={{ left: px(x), top: px(y), width: px(CARD.width), height: px(CARD.height) }} onClick={() => onSelect(node.id)}>
      <span class="name">{name}</span>
      <span class="numbers">
        {node.failure ? <span class="bad">{node.failure.kind}</span> : parent && !node.is_changed ? <span>no change</span> : (
          <>
            {parent && (
              <span class={reward > 0 ? "good" : reward < 0 ? "bad" : ""}>
                <span class="unseen">, reward </span>{signed(node.reward)}
              </span>
            )}
            <span class="cost"><span class="unseen">, cost </span>{number(node.cost)}</span>
          </>
        )}
      </span>
      {isBest && <span class="unseen">, the best here</span>}
      {hidden > 0 && <span class="hidden-count" title={`${hidden} more: steps without change, or not among the best`}>+{hidden}</span>}
    </div>
  );
}

/** Where an arrow leads from the selected node. */
function target(key: string, { tree, selected, best }: Props, places: readonly Place[]): number | undefined {
  const here = places.find((place) => place.node.id === selected);
  if (!here) return undefined;
  if (key === "ArrowLeft") return here.parent?.node.id;
  if (key === "ArrowRight") return places.find((place) => place.parent === here)?.node.id;
  if (key === "Home") return tree.root.id;
  if (key === "End") return best ?? undefined;
  if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
  const column = places.filter((place) => place.x === here.x).sort((a, b) => a.y - b.y);
  return column[column.indexOf(here) + (key === "ArrowUp" ? -1 : 1)]?.node.id;
}
