// Lines over a common x axis, drawn by uPlot in the colours of the style sheet.

import { useEffect, useRef } from "preact/hooks";
import UPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { number } from "../format.ts";
import { colour, colours } from "../theme.ts";
import type { Line } from "./line.ts";

export type { Line };

interface Props {
  label: string;
  x: number[];
  lines: Line[];
  xName?: string;
  /** Names of the places on the axis, where they are not numbers. */
  xFormat?: (value: number) => string;
  isFromZero?: boolean;
  /** What the legend says of a place, where it differs from the axis. */
  xLegend?: (value: number) => string;
  isTime?: boolean;
  /** Whether there is nothing between two whole numbers of x. */
  isWhole?: boolean;
  /** A place on the x axis that was clicked. */
  onPick?: (at: number) => void;
  mark?: number;
}

export function Chart(props: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const { x, lines } = props;
  const shape = JSON.stringify([lines.map(({ values: _, ...rest }) => rest), props.isTime, colours.value, props.mark]);
  const data = [x, ...lines.map((line) => line.values)] as UPlot.AlignedData;

  useEffect(() => {
    const parent = place.current;
    if (!parent) return undefined;
    const made = new UPlot(options(latest.current, parent), data, parent);
    plot.current = made;
    const pick = () => {
      const at = made.cursor.idx;
      if (at !== null && at !== undefined) latest.current.onPick?.(at);
    };
    made.over.addEventListener("click", pick);
    const watch = new ResizeObserver(() => made.setSize(sizeOf(parent, made)));
    watch.observe(parent);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(data), [data]);

  return <div class="chart" ref={place} role="img" aria-label={props.label} />;
}

/** The size of the plot, which leaves the legend its place: more lines of it on a narrow screen. */
const sizeOf = (parent: HTMLElement, made?: UPlot) => ({
  width: Math.max(parent.clientWidth, 120),
  height: Math.max(parent.clientHeight - (made?.root.querySelector<HTMLElement>(".u-legend")?.offsetHeight ?? 22) - 4, 60),
});

function options(props: Props, parent: HTMLElement): UPlot.Options {
  const dim = colour("dim");
  const grid = { stroke: colour("line-soft"), width: 1 };
  const ticks = { stroke: colour("line"), width: 1, size: 4 };
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: dim, grid, ticks, font, labelFont: font };
  const hasRight = props.lines.some((line) => line.scale === "right");
  const hasBars = props.lines.some((line) => line.kind === "bars");
  const { mark } = props;
  const axes: UPlot.Axis[] = [
    { ...axis, ...xAxis(props) },
    { ...axis, scale: "y", size: 56, values: (_, marks) => marks.map((value) => number(value)) },
  ];
  if (hasRight) {
    axes.push({
      ...axis, scale: "right", side: 1, size: 48, grid: { show: false },
      values: (_, marks) => marks.map((value) => number(value)),
    });
  }
  const plugins: UPlot.Plugin[] = mark === undefined ? [] : [{ hooks: { draw: (plot) => drawMark(plot, mark) } }];
  return {
    ...sizeOf(parent),
    scales: {
      x: { time: props.isTime ?? false, ...(hasBars ? { range: (_, low, high) => [low - 0.6, high + 0.6] } : {}) },
      y: props.isFromZero || hasBars ? { range: { min: { soft: 0, mode: 1 }, max: { pad: 0.08 } } } : {},
    },
    axes,
    plugins,
    padding: [8, hasRight ? 0 : props.xFormat ? 48 : 12, 0, 0],
    legend: { live: true },
    cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    series: [
      { label: props.xName ?? "step", value: (_, value) => (value == null ? "" : (props.xLegend ?? (props.isTime ? clock : number))(value)) },
      ...props.lines.map(series),
    ],
  };
}

const isOne = (values: ArrayLike<number | null | undefined>): boolean =>
  Array.from(values).filter((value) => value != null).length === 1;

/** The time of day of seconds since 1970. */
const clock = (at: number): string => new Date(at * 1000).toLocaleTimeString("en-GB");

function xAxis({ xFormat, isTime, isWhole }: Props): UPlot.Axis {
  const made: UPlot.Axis = { size: 28 };
  if (isWhole) made.incrs = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
  if (isTime) Object.assign(made, { incrs: [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 21_600, 86_400] });
  if (isTime) made.values = (_, marks) => marks.map(clock);
  if (xFormat) Object.assign(made, { rotate: -35, size: 74, values: (_: UPlot, marks: number[]) => marks.map(xFormat) });
  return made;
}

function series(line: Line): UPlot.Series {
  const stroke = colour(line.colour);
  const made: UPlot.Series = {
    label: line.name,
    stroke,
    width: 1.75,
    scale: line.scale ?? "y",
    // One value alone makes no line.
    points: { show: line.points ?? ((plot, at) => isOne(plot.data[at] ?? [])), size: 5, stroke, fill: stroke },
    value: (_, value) => (value == null ? "" : number(value, 4)),
    spanGaps: true,
  };
  if (line.dash) Object.assign(made, { dash: line.dash, width: 1.25 });
  if (line.kind === "points") Object.assign(made, { paths: () => null, points: { show: true, size: 5, fill: stroke } });
  if (line.kind === "bars" && UPlot.paths.bars) {
    Object.assign(made, { paths: UPlot.paths.bars({ size: [0.7, 40] }), fill: stroke, points: { show: false } });
  }
  if (line.kind === "steps" && UPlot.paths.stepped) made.paths = UPlot.paths.stepped({ align: 1 });
  return made;
}

/** A vertical line where the chosen step is. */
function drawMark(plot: UPlot, mark: number): void {
  const x = plot.valToPos(mark, "x", true);
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour("accent");
  ctx.globalAlpha = 0.45;
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}
