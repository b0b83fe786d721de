#!/usr/bin/env bash
# Measures what the actions of `llvm-v0` cost: records random walks over programs of the demo, and prints
# crates/llvm/src/actions/costs.csv, the mean wall time in ns for each instruction of the program. `--policy explore`
# weighs by it. Run it on quiet cores; it takes about five minutes.
#   scripts/action-costs.sh >crates/llvm/src/actions/costs.csv
set -euo pipefail
source "$(dirname "$0")/paths.sh"

steplake=${STEPLAKE:-$target/release/steplake}
folder=$(mktemp --directory)
trap 'rm --recursive --force "$folder"' EXIT
# A step of more than a tenth of a second says more about its program than about its action.
question="SELECT pipeline, greatest(1, sum(ns) / sum(instructions)) AS cost FROM (
    SELECT a.pipeline, least(s.wall_time_us, 100000) * 1000 AS ns, o.\"IrInstructionCount\" AS instructions
    FROM (SELECT action, wall_time_us, step_index, state_id,
            lag(state_id) OVER (PARTITION BY episode_id ORDER BY step_index) AS before
        FROM steps) s
    JOIN actions a ON a.action = s.action JOIN observations o ON o.state_id = s.before
    WHERE s.step_index > 0 AND s.state_id IS NOT NULL AND a.pipeline <> ''
) GROUP BY pipeline"
for space in llvm22-v1 llvm22-all-v0 llvm22-param-v0; do
    "$steplake" --quiet --lake "$folder/$space" generate --action-space "$space" --episodes 400 --jobs 1 \
        --ir none --benchmark 'benchmark://steplake-v0/*' --benchmark 'generator://csmith-v0/0..9' >&2
    "$steplake" --quiet --lake "$folder/$space" sql --format csv "$question" | tail --lines=+2 >"$folder/$space.csv"
done
echo pipeline,cost
# The default space has the most steps of each action, so its costs count where it has one.
awk '{ pipeline = $0; sub(/,[0-9]+$/, "", pipeline) } !(pipeline in seen) { seen[pipeline] = 1; print }' \
    "$folder"/llvm22-v1.csv "$folder"/llvm22-all-v0.csv "$folder"/llvm22-param-v0.csv | LC_ALL=C sort
