#!/usr/bin/env bash
# A first lake, from programs to answers. Running it again goes on with the same lake.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

export STEPLAKE_LAKE=${STEPLAKE_LAKE:-lake}
steplake() { "$target/release/steplake" "$@"; }

say "1. Twenty benchmarks: generated programs, our own, and files of three Debian packages"
benchmarks=('generator://csmith-v0/0..3')
for name in blocked_matmul fourier introsort json_reader keyed_hash shortest_paths text_search window_compressor; do
    benchmarks+=("benchmark://steplake-v0/$name")
done
debian_reached=yes
debian() { # package file...
    if [[ $debian_reached == no ]]; then return; fi
    local uris=("${@:2}") status=0
    uris=("${uris[@]/#/benchmark://debian-v0/$1/}")
    steplake datasets install "${uris[@]}" || status=$?
    case $status in
        0) benchmarks+=("${uris[@]}") ;;
        5) # One wait for a network that does not answer is enough.
            debian_reached=no
            say "Going on without $1 and further Debian packages: without a network, they cannot be fetched." ;;
        *) say "Going on without $1." ;;
    esac
}
debian zlib adler32.c inflate.c trees.c
debian bzip2 blocksort.c decompress.c huffman.c
debian lz4 lib/lz4.c lib/lz4frame.c

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

say "7. Three questions, and the first ten rows of each answer"
ask() { # question query
    say "$1"
    steplake query "$2" --rows 10
}
ask "Which actions, one after the other, make each program smallest?" best_sequence
ask "How much of a program does each action remove, on average?" mean_reward
ask "How often does each action change nothing?" noop_rate

say "The Parquet lies in $(realpath "$STEPLAKE_LAKE")"
ls -d "$STEPLAKE_LAKE"/*/ >&2
cat >&2 <<END

Ask more:  $target/release/steplake query --list
           $target/release/steplake sql 'SELECT * FROM state_transitions LIMIT 5'
END
