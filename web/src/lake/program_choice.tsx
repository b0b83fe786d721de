// The choice of one recorded program, or all.

import { api } from "../api.ts";
import { programName } from "../format.ts";
import { useLoad } from "../parts/load.ts";
import type { LakeBenchmark } from "../wire.ts";

const PROGRAMS_MAX = 2000;

export function usePrograms(): LakeBenchmark[] {
  return useLoad((cancel) => api.benchmarks("", PROGRAMS_MAX, cancel), []).value ?? [];
}

export function ProgramChoice({ programs, value, onChange }: {
  programs: readonly LakeBenchmark[];
  value: string;
  onChange: (benchmark: string) => void;
}) {
  const isKnown = value === "" || programs.some((program) => program.benchmark === value);
  return (
    <label class="labelled">
      Program
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">all programs</option>
        {!isKnown && <option value={value}>{programName(value)}</option>}
        {programs.map(({ benchmark }) => (
          <option key={benchmark} value={benchmark}>{programName(benchmark)}</option>
        ))}
      </select>
    </label>
  );
}
