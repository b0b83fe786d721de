// A line of a chart.

export interface Line {
  name: string;
  values: (number | null)[];
  /** The name of a colour of the style sheet. */
  colour: string;
  dash?: number[];
  scale?: "y" | "right";
  points?: boolean;
  kind?: "line" | "points" | "bars" | "steps";
}
