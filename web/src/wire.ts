// What the server answers: see docs/EXPLORING.md for the calls.

export interface ActionName {
  index: number;
  name: string;
}

export interface Action extends ActionName {
  description?: string | null;
}

export interface LakeAbout {
  path: string;
  environment: string;
  action_space: string;
  snapshot: number | null;
  states: number;
  transitions: number;
  steps: number;
  episodes: number;
  benchmarks: number;
  observation_spaces: string[];
  is_derived_current: boolean;
  /** The steps that no dedup has counted. */
  uncounted_steps: number;
}

export interface ActionSpace {
  name: string;
  actions: Action[];
}

export interface Dataset {
  name: string;
  description: string;
  examples: string[];
}

export interface Live {
  environment: string;
  action_spaces: ActionSpace[];
  default_action_space: string;
  reward_spaces: string[];
  default_reward_space: string;
  feature_spaces: Record<string, string[]>;
  datasets: Dataset[];
}

export interface Describe {
  version: string;
  lake: LakeAbout | null;
  /** Where the lake is or would be. */
  lake_path?: string | null;
  live: Live;
}

export interface SessionNode {
  id: number;
  parent: number | null;
  action: ActionName | null;
  state_id: string | null;
  is_changed: boolean;
  reward: number | null;
  cumulative_reward: number | null;
  cost: number | null;
  failure: { kind: string; detail: string } | null;
  depth: number;
}

export interface Baselines {
  O0: number | null;
  O3: number | null;
  Oz: number | null;
}

export interface Session {
  id: string;
  benchmark: string;
  action_space: string;
  reward_space: string;
  cost_name: string;
  baselines: Baselines;
  nodes: SessionNode[];
}

export interface Source {
  name: string;
  text: string;
}

export interface Features {
  names: string[];
  values: (number | null)[];
}

export interface FeaturesAlong {
  names: string[];
  values: (number | null)[][];
}

export type Change = "same" | "changed" | "added" | "removed";

export interface FunctionChange {
  name: string;
  change: Change;
  lines_before: number;
  lines_after: number;
  added: number;
  removed: number;
}

export interface Diff {
  functions: FunctionChange[];
  module: FunctionChange;
}

export interface DiffText {
  before: string;
  after: string;
}

export interface Command {
  /** The actions that changed something. */
  opt: string;
  /** Every action. */
  opt_all?: string;
  note?: string | null;
}

export interface LakeBenchmark {
  benchmark: string;
  first_state: string;
  costs: Record<string, Partial<Baselines>>;
  episodes: number;
}

export interface LakeState {
  state_id: string;
  observations: Record<string, number | null>;
  features: Record<string, Features>;
  is_start_of: string[];
  /** Null before the first dedup, as the next two. */
  in_degree: number | null;
  out_degree: number | null;
  actions_tried: number | null;
  actions_total: number;
  has_ir: boolean;
  benchmark?: string | null;
  cost_name?: string | null;
  baselines?: Partial<Baselines> | null;
}

export interface Neighbour {
  state_id: string;
  action: ActionName;
  count: number;
  is_changed: boolean;
  cost_name: string | null;
  cost: Record<string, number | null>;
  difference: Record<string, number | null>;
}

/** The baselines are those of its program for the cost that it names. */
export interface LakePath extends Baselines {
  benchmark: string;
  actions: ActionName[];
  states: string[];
  cost_name: string | null;
  costs: Record<string, number | null>[];
  command: string;
}

export interface LakeGraph {
  states: string[];
  costs: (number | null)[];
  cost_name: string;
  starts: number[];
  edges: { from: number[]; to: number[]; action: number[] };
  action_names: string[];
  is_cut: boolean;
}

export interface BestPath {
  benchmark: string;
  cost_name: string;
  best_cost: number | null;
  O0: number | null;
  Oz: number | null;
  actions: ActionName[];
  states: string[];
}

export interface FrontierState {
  state_id: string;
  benchmark: string;
  cost_name: string;
  cost: number | null;
  untried: number;
  /** Null where only forks lead, whose steps count from a later state. */
  depth: number | null;
  /** The most promising untried action, and the mean reward of it elsewhere. */
  action?: ActionName | null;
  promise?: number | null;
}

export interface QueryParameter {
  name: string;
  kind: string;
  default: string | null;
  description: string;
}

export interface NamedQuery {
  name: string;
  title: string;
  topic: string;
  sql: string;
  needs: string | null;
  parameters: QueryParameter[];
}

export type Cell = null | boolean | number | string | Cell[] | { [name: string]: Cell };

export interface QueryResult {
  columns: { name: string; type: string }[];
  rows: Cell[][];
  is_cut: boolean;
  seconds: number;
  sql?: string;
}

export interface RunProgress {
  run_id: number | string;
  policy: string;
  started_at: number | string | null;
  is_complete: boolean;
  is_writing: boolean;
  episodes: number;
  steps: number;
  states: number;
  seed: number | string | null;
  /** Patterns of programs, and how many programs they name. */
  benchmarks: number | string[];
  benchmark_count?: number;
}

export interface Progress {
  runs: RunProgress[];
  recent: { at: number; steps: number; states: number }[];
  uncounted_steps: number;
}
