// What the page proposes to type: names that the server has.

import type { Live } from "./wire.ts";

/** A URI that can be typed: of a generator, which has more programs than are listed, where there is one. */
export function exampleOf({ datasets }: Pick<Live, "datasets">): string | undefined {
  const examples = datasets.flatMap((known) => known.examples.at(-1) ?? []);
  return examples.find((uri) => uri.startsWith("generator://")) ?? examples[0];
}

const USUAL_ENVIRONMENT = "llvm-v0";
const OWN_PROGRAMS = "benchmark://steplake-v0";

/** The command that records episodes of a few programs of an environment. */
export function recordingCommand(live: Pick<Live, "environment" | "datasets">, lake: string, rest: string): string {
  const { environment, datasets } = live;
  const hasOwn = datasets.some(({ examples }) => examples.some((uri) => uri.startsWith(`${OWN_PROGRAMS}/`)));
  const benchmark = hasOwn ? `${OWN_PROGRAMS}/*` : (exampleOf(live) ?? "BENCHMARK");
  const env = environment === USUAL_ENVIRONMENT ? "" : ` --env ${environment}`;
  return `steplake --lake ${lake} generate${env} --benchmark '${benchmark}' ${rest}`;
}
