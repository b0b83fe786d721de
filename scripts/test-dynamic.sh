#!/usr/bin/env bash
# Records the same episodes with LLVM linked statically and as a shared library, with the CPU's FMA and AVX2 visible to
# the C library and hidden from it: all tables must be equal. Builds steplake twice.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cargo build --release --locked --features llvm-dynamic
cp "$target/release/steplake" "$scratch/dynamic"
cargo build --release --locked
cp "$target/release/steplake" "$scratch/static"
ldd "$scratch/dynamic" | grep --quiet libLLVM || fail "the feature llvm-dynamic does not load libLLVM"
if ldd "$scratch/static" | grep --quiet libLLVM; then fail "the usual build loads libLLVM"; fi

record() { # program tunables
    local lake="$scratch/lake-$1-$2"
    GLIBC_TUNABLES=$2 "$scratch/$1" --lake "$lake" generate --policy random --seed 4 --episodes 60 \
        --ir keyframes=16 --benchmark 'benchmark://steplake-v0/*' --benchmark 'generator://csmith-v0/0..4' \
        --benchmark 'generator://llvm-stress-v0/0..9' >&2
    "$scratch/static" --lake "$lake" sql --format csv "SELECT episode_id, step_index, action, state_id,
        reward_IrInstructionCount, reward_IrInstructionCountOz FROM steps ORDER BY 1, 2"
    "$scratch/static" --lake "$lake" sql --format csv "SELECT state_id, bitcode_sha1 FROM ir ORDER BY 1"
    "$scratch/static" --lake "$lake" sql --format csv "SELECT * FROM benchmarks ORDER BY 1"
}

for program in static dynamic; do
    for tunables in '' 'glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2'; do
        record "$program" "$tunables" > "$scratch/tables"
        [[ -e $scratch/expected ]] || cp "$scratch/tables" "$scratch/expected"
        cmp "$scratch/tables" "$scratch/expected" || fail "$program with '$tunables': the tables differ"
    done
done
say "$(wc --lines < "$scratch/expected") rows of steps, states and programs are equal in all four ways"
