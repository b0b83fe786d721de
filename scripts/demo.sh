#!/usr/bin/env bash
# A first lake, from programs to answers. Running it again goes on with the same lake.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

export STEPLAKE_LAKE=${STEPLAKE_LAKE:-lake}
steplake() { "$target/release/steplake" "$@"; }

say "1. About 20 benchmarks: generated programs, our own, and three Debian packages"
benchmarks=('generator://csmith-v0/0..4' 'benchmark://steplake-v0/*')
for pattern in 'zlib/[aci]*.c' 'bzip2/[bdh]*.c' 'lz4/lib/lz4.c'; do
    package=${pattern%%/*}
    if steplake datasets install "benchmark://debian-v0/$package"; then
        benchmarks+=("benchmark://debian-v0/$pattern")
    else
        printf 'The source of %s cannot be fetched (no network?): going on without it.\n' "$package" >&2
    fi
done

say "2. Random episodes on all cores"
steplake generate --resume --policy random --seed 0 --episodes 300 --jobs "$(nproc)" \
    "${benchmarks[@]/#/--benchmark=}"

say "3. Seal: the recorded rows become Parquet"
steplake seal

say "4. Dedup: steps become state transitions"
steplake dedup

say "5. Verify: every digest, every state's SHA-1, and 100 transitions played again"
steplake verify --replay 100

say "6. What is there"
steplake info

say "7. Three questions"
for query in best_sequence mean_reward noop_rate; do
    steplake query "$query"
done

say "The Parquet lies in $(realpath "$STEPLAKE_LAKE")"
ls -d "$STEPLAKE_LAKE"/*/ >&2
cat >&2 <<END

Ask more:  $target/release/steplake query --list
           $target/release/steplake sql 'SELECT * FROM state_transitions LIMIT 5'
END
