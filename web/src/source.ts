// Programs that somebody pasted: their names, and their sources, which this tab keeps.

import type { Source } from "./wire.ts";

const OWN = "benchmark://user-v0/";
const KEY = "steplake-source:";

/** Whether a URI names a program that somebody sent, which no dataset has. */
export const isOwn = (uri: string): boolean => uri.startsWith(OWN);

/** The name of a source: another one for each text, since links name a program by it. */
export const sourceName = (language: "c" | "ll", text: string): string => `program-${digest(text)}.${language}`;

/** 53 bits of a text (cyrb53). The browser's own digests are missing where the page has no TLS. */
function digest(text: string): string {
  let a = 0xdeadbeef;
  let b = 0x41c6ce57;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    a = Math.imul(a ^ unit, 2654435761);
    b = Math.imul(b ^ unit, 1597334677);
  }
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909);
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909);
  return (4294967296 * (2097151 & b) + (a >>> 0)).toString(36).padStart(11, "0");
}

export function keepSource(uri: string, source: Source): void {
  try {
    sessionStorage.setItem(KEY + uri, JSON.stringify(source));
  } catch {
    // A program too big for this storage can be pasted again.
  }
}

export function keptSource(uri: string): Source | undefined {
  const kept = sessionStorage.getItem(KEY + uri);
  return kept ? (JSON.parse(kept) as Source) : undefined;
}
