// A session's nodes as a tree.

import type { SessionNode } from "./wire.ts";

export interface SessionTree {
  root: SessionNode;
  byId: ReadonlyMap<number, SessionNode>;
  children: ReadonlyMap<number, SessionNode[]>;
}

export function treeOf(nodes: readonly SessionNode[]): SessionTree {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const children = new Map<number, SessionNode[]>();
  let root: SessionNode | undefined;
  for (const node of nodes) {
    if (node.parent === null) {
      root = node;
      continue;
    }
    const siblings = children.get(node.parent);
    if (siblings) siblings.push(node);
    else children.set(node.parent, [node]);
  }
  if (!root) throw new Error("the session has no first node");
  return { root, byId, children };
}

/** The nodes from the root to a node, both included. */
export function pathTo(tree: SessionTree, id: number): SessionNode[] {
  const path: SessionNode[] = [];
  for (let node = tree.byId.get(id); node; node = node.parent === null ? undefined : tree.byId.get(node.parent)) {
    path.push(node);
  }
  return path.reverse();
}

export const actionsTo = (tree: SessionTree, id: number): number[] =>
  pathTo(tree, id).flatMap((node) => (node.action ? [node.action.index] : []));

/** The node that actions lead to, as far as they were tried. */
export function follow(tree: SessionTree, actions: readonly number[]): { node: SessionNode; isWhole: boolean } {
  let node = tree.root;
  for (const action of actions) {
    const next = tree.children.get(node.id)?.find((child) => child.action?.index === action);
    if (!next) return { node, isWhole: false };
    node = next;
  }
  return { node, isWhole: true };
}

/** The first of the nodes with the lowest cost. */
export function bestOf(nodes: readonly SessionNode[]): SessionNode | null {
  let best: SessionNode | null = null;
  for (const node of nodes) {
    if (node.cost !== null && !node.failure && (best?.cost == null || node.cost < best.cost)) best = node;
  }
  return best;
}
