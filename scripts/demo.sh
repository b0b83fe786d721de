#!/usr/bin/env bash
# A first lake, from programs to answers. Running it again continues with the same lake.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

export STEPLAKE_LAKE=${STEPLAKE_LAKE:-demo}
steplake() { "$target/release/steplake" "$@"; }

say "1. Twenty benchmarks: generated programs, our own, and files of three Debian packages"
source scripts/programs.sh

say "2. Random episodes on all cores"
steplake generate --resume --policy random --seed 0 --episodes 300 --jobs "$(nproc)" \
    "${benchmarks[@]/#/--benchmark=}"

say "3. Dedup: steps become state transitions"
steplake dedup

say "4. Verify: every digest, every state's SHA-1 and id, and 100 transitions played again"
steplake verify --replay 100

say "5. What is there"
steplake info

say "6. Three questions, and the first ten rows of each answer"
ask() { # question query
    say "$1"
    steplake query "$2" --rows 10
}
ask "Which actions, one after the other, make each program smallest?" best_episode
ask "How much of a program does each action remove, on average?" mean_reward
ask "How often does each action change nothing?" noop_rate

say "The Parquet lies in $(realpath "$STEPLAKE_LAKE")"
ls -d "$STEPLAKE_LAKE"/*/ >&2
cat >&2 <<END

Ask more:  $target/release/steplake --lake $STEPLAKE_LAKE query --list
           $target/release/steplake --lake $STEPLAKE_LAKE sql 'SELECT * FROM state_transitions LIMIT 5'
END
