#!/usr/bin/env bash
# Measures how fast a whole table comes over Flight, beside pyarrow reading the same Parquet, and
# runs 32 clients for a minute.
#   scripts/bench-serve.sh [LAKE]      without LAKE, makes one of the toy environment: ROWS steps (2,000,000)
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

cargo build --profile dist --locked "${packages[@]}"
export STEPLAKE=$target/dist/steplake
lake=${1:-}
if [[ -z $lake ]]; then
    folder=$(mktemp --directory)
    trap 'rm --recursive --force "$folder"' EXIT
    lake=$folder/lake
    say "Recording ${ROWS:-2000000} steps of the toy environment"
    "$STEPLAKE" --lake "$lake" --quiet generate --env toy-v0 --benchmark 'generator://toy-v0/0..99' \
        --steps "${ROWS:-2000000}" --ir none
    "$STEPLAKE" --lake "$lake" --quiet seal
    "$STEPLAKE" --lake "$lake" --quiet dedup
fi
scripts/python.sh --requirements tests/python/serve/requirements.txt tests/python/serve/bench_throughput.py "$lake"
cargo bench --locked "${packages[@]}" --bench load
