// Cells of an answer as text, and an answer as CSV.

import { number } from "../format.ts";
import type { Cell, QueryResult } from "../wire.ts";

export const isNumeric = (type: string): boolean => /^(u?int|float|double|decimal)/i.test(type);
export const isTime = (type: string): boolean => /^(timestamp|date)/i.test(type);
export const isStateId = (cell: Cell): cell is string => typeof cell === "string" && /^[0-9a-f]{40}$/.test(cell);

export function cellText(cell: Cell): string {
  if (cell === null) return "";
  if (typeof cell === "number") return Number.isInteger(cell) ? String(cell) : number(cell, 6);
  if (typeof cell === "object") return JSON.stringify(cell);
  return String(cell);
}

/** RFC 4180: quotes where they are needed, and the numbers as they came. */
export function toCsv({ columns, rows }: Pick<QueryResult, "columns" | "rows">): string {
  const field = (cell: Cell): string => {
    const text = cell === null ? "" : typeof cell === "object" ? JSON.stringify(cell) : String(cell);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [columns.map((column) => field(column.name)), ...rows.map((row) => row.map(field))];
  return lines.map((line) => `${line.join(",")}\r\n`).join("");
}

export interface PlotChoice {
  /** The column of the x axis; -1 is the number of the row. */
  x: number;
  y: number[];
}

/** What is drawn first: the first number over the row, or over the number or time before it if that only rises. */
export function firstChoice({ columns, rows }: QueryResult): PlotChoice {
  const numeric = columns.flatMap((column, at) => (isNumeric(column.type) ? [at] : []));
  const [first, second] = numeric;
  if (first === undefined) return { x: -1, y: [] };
  const rises = rows.every((row, at) => at === 0 || Number(row[first]) > Number(rows[at - 1]?.[first]));
  return second !== undefined && rises ? { x: first, y: [second] } : { x: -1, y: [first] };
}

/** The place of a cell on an axis: its number, or the seconds of its time. */
export function placeOf(cell: Cell, type: string): number | null {
  if (cell === null) return null;
  if (isTime(type) && typeof cell === "string") {
    const at = Date.parse(cell);
    return Number.isNaN(at) ? null : at / 1000;
  }
  const value = Number(cell);
  return Number.isFinite(value) ? value : null;
}
