// The answer to a question: as a table, as a plot, as CSV.

import { useMemo, useState } from "preact/hooks";
import { number, plural } from "../format.ts";
import { Choice } from "../parts/basics.tsx";
import { Chart, type Line } from "../parts/chart.tsx";
import type { Cell, QueryResult } from "../wire.ts";
import { StateLink } from "./links.tsx";
import { cellText, firstChoice, isNumeric, isStateId, isTime, placeOf, toCsv, type PlotChoice } from "./result_text.ts";

type Shown = "table" | "plot";
type Kind = "line" | "points" | "bars";
/** With more rows than this, their names do not fit below the axis. */
const NAMED_ROWS_MAX = 40;
const COLOURS = ["accent", "warm", "good", "violet", "teal", "bad"];

export function Result({ result }: { result: QueryResult }) {
  const [shown, setShown] = useState<Shown>("table");
  const canPlot = result.rows.length > 0 && result.columns.some((column) => isNumeric(column.type));
  return (
    <section class="panel result" aria-label="Answer">
      <div class="bar">
        <Choice label="Show the answer as" value={canPlot ? shown : "table"} onChange={setShown}
          options={[{ value: "table", name: "Table" }, ...(canPlot ? [{ value: "plot", name: "Plot" } as const] : [])]} />
        <span class="dim" role="status">
          {result.is_cut ? `the first ${plural(result.rows.length, "row")}, there are more` : plural(result.rows.length, "row")}
          {" "}in {number(result.seconds, 2)} s
        </span>
        <span class="grow" />
        <button type="button" onClick={() => save(result)} disabled={result.rows.length === 0}>Save as CSV</button>
      </div>
      {shown === "plot" && canPlot ? <Plot result={result} /> : <ResultTable result={result} />}
    </section>
  );
}

function save(result: QueryResult): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([toCsv(result)], { type: "text/csv" }));
  link.download = "answer.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function ResultTable({ result: { columns, rows } }: { result: QueryResult }) {
  if (rows.length === 0) return <p class="nothing">No row meets the question.</p>;
  const side = columns.map((column) => (isNumeric(column.type) ? "right" : ""));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of the answer">
      <table class="rows">
        <thead>
          <tr>{columns.map((column, at) => <th key={at} scope="col" class={side[at]} title={column.type}>{column.name}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              {row.map((cell, column) => <td key={column} class={side[column]}><CellText cell={cell} /></td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function CellText({ cell }: { cell: Cell }) {
  if (cell === null) return <span class="dim">null</span>;
  if (isStateId(cell)) return <StateLink id={cell} />;
  const text = cellText(cell);
  return text.length > 60 ? <span title={text}>{text.slice(0, 200)}</span> : <>{text}</>;
}

function Plot({ result }: { result: QueryResult }) {
  const { columns, rows } = result;
  const [choice, setChoice] = useState<PlotChoice>(() => firstChoice(result));
  const [kind, setKind] = useState<Kind>(choice.x < 0 ? "bars" : "line");
  const xType = columns[choice.x]?.type ?? "Int64";
  const { x, lines } = useMemo(() => {
    const places = rows.map((row, at) => (choice.x < 0 ? at : placeOf(row[choice.x] ?? null, xType)));
    // uPlot draws from left to right, and what has no place cannot be drawn.
    const order = places.flatMap((place, at) => (place === null ? [] : [at])).sort((a, b) => places[a]! - places[b]!);
    const made = choice.y.map((column, at): Line => ({
      name: columns[column]?.name ?? "", colour: COLOURS[at % COLOURS.length] ?? "accent", kind,
      values: order.map((row) => placeOf(rows[row]?.[column] ?? null, columns[column]?.type ?? "")),
    }));
    return { x: order.map((row) => places[row]!), lines: made };
  }, [result, choice, kind]);
  const names = columns.findIndex((column) => !isNumeric(column.type) && !isTime(column.type));
  const nameOf = (at: number) => (Number.isInteger(at) && rows[at] ? cellText(rows[at][names] ?? null) : "");
  const tickOf = (at: number) => nameOf(at).split("/").at(-1)?.slice(0, 14) ?? "";
  const named = names < 0 ? {} : { xLegend: nameOf, ...(rows.length <= NAMED_ROWS_MAX ? { xFormat: tickOf } : {}) };
  const toggle = (column: number) =>
    setChoice({ ...choice, y: choice.y.includes(column) ? choice.y.filter((one) => one !== column) : [...choice.y, column] });
  return (
    <div class="plot">
      <div class="plot-choices">
        <label class="labelled">
          x
          <select value={choice.x} onChange={(event) => setChoice({ ...choice, x: Number(event.currentTarget.value) })}>
            <option value={-1}>row</option>
            {columns.map((column, at) => (isNumeric(column.type) || isTime(column.type)) && (
              <option key={at} value={at}>{column.name}</option>
            ))}
          </select>
        </label>
        <div class="choice-many" role="group" aria-label="y">
          {columns.map((column, at) => isNumeric(column.type) && (
            <label key={at} class="check">
              <input type="checkbox" checked={choice.y.includes(at)} onChange={() => toggle(at)} />{column.name}
            </label>
          ))}
        </div>
        <span class="grow" />
        <Choice label="Kind of plot" value={kind} onChange={setKind}
          options={[{ value: "line", name: "Line" }, { value: "points", name: "Points" }, { value: "bars", name: "Bars" }]} />
      </div>
      <div class="plot-place">
        {lines.length === 0 ? <p class="nothing">Choose at least one column for y.</p> : (
          <Chart x={x} lines={lines} isTime={isTime(xType)} xName={columns[choice.x]?.name ?? "row"}
            {...(choice.x < 0 ? { isWhole: true, ...named } : {})}
            label={`${lines.map((line) => line.name).join(", ")} over ${columns[choice.x]?.name ?? "rows"}`} />
        )}
      </div>
    </div>
  );
}
