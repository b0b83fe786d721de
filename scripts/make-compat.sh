#!/usr/bin/env bash
# Makes the lakes of data/compat/v<format>, with their answers: run once, when a format is released.
# `tests/it/compat.rs` keeps opening them.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

binary=${STEPLAKE:-$target/release/steplake}
place=data/compat/v${1:?which format?}
[[ ! -e $place ]] || fail "$place is there already: a released format does not change"
steplake() { "$binary" --quiet "$@"; }
sorted() { # table: its rows in the order of its key
    case $1 in
        benchmarks) echo "benchmarks ORDER BY benchmark_uri" ;;
        episodes) echo "episodes ORDER BY episode_id" ;;
        steps) echo "steps ORDER BY episode_id, step_index" ;;
        observations | ir) echo "$1 ORDER BY state_id" ;;
        state_transitions | failures) echo "$1 ORDER BY state_id, action" ;;
        snapshots) echo "snapshots ORDER BY snapshot_id" ;;
        retractions) echo "retractions ORDER BY retraction_id" ;;
    esac
}
answers() { # folder table... -- option...
    local folder=$1 tables=() table columns
    shift
    while [[ $# -gt 0 && $1 != -- ]]; do tables+=("$1"); shift; done
    if [[ $# -gt 0 ]]; then shift; fi
    mkdir -p "$folder"
    for table in "${tables[@]}"; do
        columns='*'
        # The SHA-1 represents the bitcode.
        if [[ $table == ir ]]; then columns='state_id, bytes, bitcode_sha1'; fi
        steplake sql "SELECT $columns FROM $(sorted "$table")" --format json "$@" > "$folder/$table.json"
    done
}

# Readers leave empty SQLite files beside the database.
tidy() {
    [[ ! -s $STEPLAKE_LAKE/hot.sqlite-wal ]] || fail "$STEPLAKE_LAKE: the log is not home"
    rm -f "$STEPLAKE_LAKE"/hot.sqlite-{wal,shm}
}

# Several runs, snapshots, a retracted action and run, keyframes, and hot rows.
export STEPLAKE_LAKE=$place/toy/lake
mkdir -p "$place/toy"
toy=(generate --env toy-v0 --benchmark 'generator://toy-v0/0..5')
steplake "${toy[@]}" --steps 250 --seed 15
steplake dedup
steplake "${toy[@]}" --steps 200 --seed 2 --policy explore --ir keyframes=3
steplake dedup
steplake "${toy[@]}" --steps 100 --seed 3 --ir none
steplake retract --run 3 --reason "to see it gone"
steplake retract --action align --reason "to see it left out"
steplake "${toy[@]}" --steps 100 --seed 4
answers "$place/toy/answers" benchmarks episodes steps observations ir state_transitions failures snapshots retractions
answers "$place/toy/answers/3" episodes steps state_transitions -- --snapshot 3
tidy

# LLVM's states, half of which have to be rebuilt.
export STEPLAKE_LAKE=$place/llvm/lake
mkdir -p "$place/llvm"
steplake generate --benchmark benchmark://steplake-v0/introsort --benchmark benchmark://steplake-v0/keyed_hash \
    --episodes 4 --episode-length 20 --seed 1 --ir keyframes=4
steplake dedup
answers "$place/llvm/answers" benchmarks episodes steps observations ir state_transitions snapshots
tidy
