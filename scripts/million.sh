#!/usr/bin/env bash
# Records the demo's programs until there are so many unique states: a million, or the first argument. Killed, it
# goes on where it stood when it is run again. POLICY=explore takes half as long as random, the default.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

states=${1:-1000000}
export STEPLAKE_LAKE=${STEPLAKE_LAKE:-million}
binary=${STEPLAKE:-$target/release/steplake}
[[ -x $binary ]] || fail "$binary is not there: cargo build --release --locked"
steplake() { "$binary" "$@"; }
source scripts/programs.sh

say "Recording until $states unique states by ${POLICY:-random}, IR by keyframes"
python3 - "$binary" generate --resume --policy "${POLICY:-random}" --seed 0 --states "$states" --ir keyframes=16 \
    --jobs "$(nproc)" "${benchmarks[@]/#/--benchmark=}" <<'END'
import os
import sys
import time

began = time.monotonic()
child = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(child, 0)
seconds = time.monotonic() - began
with open(os.environ["STEPLAKE_LAKE"] + ".seconds", "a", encoding="utf-8") as file:
    print(seconds, file=file)
# Of the largest process: the supervisor, or one of its workers.
print(f"{seconds / 60:.1f} minutes, {(usage.ru_utime + usage.ru_stime) / 60:.1f} of CPU time; "
      f"peak memory {usage.ru_maxrss / 1024:.0f} MiB", file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
END
steplake seal
steplake dedup
steplake info
number() { steplake sql "$1" --format csv | tail -n 1; }
unique=$(number "SELECT count(*) FROM observations")
failures=$(number "SELECT count(*) FROM episodes WHERE outcome NOT IN ('complete', 'ended')")
bytes=$(du --summarize --bytes "$STEPLAKE_LAKE" | cut --fields=1)
seconds=$(awk '{ sum += $1 } END { printf "%d", sum }' "$STEPLAKE_LAKE.seconds")
say "$unique unique states in $((seconds / 60)) minutes over all calls: $((unique / seconds)) a second"
say "$((bytes / unique)) bytes a state, $((bytes / 1000000)) MB in all; failures of the compiler: $failures"
