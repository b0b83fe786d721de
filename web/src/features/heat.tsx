// A table whose cells are coloured by how much a row changes a column.

import { number, signed } from "../format.ts";
import { strength } from "./changes.ts";

export interface HeatRow {
  key: string;
  name: string;
  index?: number | undefined;
  cells: (number | null)[];
  href?: string | undefined;
}

export function Heat({ label, columns, rows, largest, chosen, onChoose, rowName }: {
  label: string;
  columns: string[];
  rows: HeatRow[];
  /** The largest change of every column, without sign. */
  largest: number[];
  chosen?: string | undefined;
  onChoose?: (column: string) => void;
  rowName: string;
}) {
  return (
    <div class="scroll heat" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            <th scope="col" class="corner">{rowName}</th>
            {columns.map((column) => (
              <th key={column} scope="col" class={column === chosen ? "chosen" : ""}>
                <div>
                  {onChoose ? (
                    <button type="button" class="link" onClick={() => onChoose(column)}>{column}</button>
                  ) : <span>{column}</span>}
                </div>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.key}>
              <th scope="row" title={row.name}>
                {row.index !== undefined && <span class="index">{row.index}</span>}
                {row.href ? <a href={row.href}>{row.name}</a> : row.name}
              </th>
              {row.cells.map((delta, at) => <HeatCell key={columns[at]} delta={delta} largest={largest[at] ?? 0} />)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function HeatCell({ delta, largest }: { delta: number | null; largest: number }) {
  if (delta === null || delta === 0) return <td class="none">{delta === 0 ? "" : "·"}</td>;
  const part = Math.round(strength(delta, largest) * 70);
  const shade = part > 0 ? "--heat-more" : "--heat-less";
  const text = Math.abs(delta) >= 1000 ? `${delta > 0 ? "+" : "−"}${number(Math.abs(delta) / 1000, 2)}k` : signed(delta, 2);
  return (
    <td style={{ background: `color-mix(in srgb, var(${shade}) ${Math.abs(part)}%, transparent)` }}>{text}</td>
  );
}
