#!/usr/bin/env bash
# Lays out the code of a worker by what random walks run of it, with llvm-bolt of Debian's package
# `bolt-22`:
#   scripts/bolt.sh WORKER WALKS OUT
# OUT is stripped. WORKER was linked with its relocations (STEPLAKE_RELOCATIONS=1), and WALKS is the
# example `walks`. Both workers then play walks of other programs: their states have to be equal, and
# the CPU time of each is printed.
set -euo pipefail
source "$(dirname "$0")/paths.sh"

worker=$1 walks=$2 out=$3
work=$(mktemp --directory)
trap 'rm --recursive --force "$work"' EXIT

training=() others=()
for name in blocked_matmul fourier introsort json_reader keyed_hash shortest_paths text_search; do
    training+=("benchmark://steplake-v0/$name")
done
for seed in {0..8}; do training+=("generator://csmith-v0/$seed"); done
for name in huffman orbits window_compressor; do others+=("benchmark://steplake-v0/$name"); done
for seed in {100..104}; do others+=("generator://csmith-v0/$seed"); done

# A worker opens no file once it has work. So a process that it forks at its very start writes the
# profile, every two seconds and at the end.
llvm-bolt-22 "$worker" -o "$work/instrumented" -instrument \
    --instrumentation-file="$work/profile" --instrumentation-sleep-time=2 \
    --instrumentation-no-counters-clear >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
"$walks" "$work/instrumented" 1 64 "${training[@]}" >/dev/null
size=0
for _ in {1..30}; do
    sleep 3
    before=$size size=$(stat --format=%s "$work/profile" 2>/dev/null || echo 0)
    [[ $size -eq 0 || $size -ne $before ]] || break
done
llvm-bolt-22 "$worker" -o "$work/laid" -data="$work/profile" -reorder-blocks=ext-tsp \
    -reorder-functions=cdsort -split-functions -split-all-cold -split-eh -icf=1 -use-gnu-stack \
    -use-old-text >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }

strip -o "$out" "$work/laid"

read -r expected _ _ before _ <<<"$("$walks" "$worker" 2 16 "${others[@]}")"
read -r found _ _ after _ <<<"$("$walks" "$out" 2 16 "${others[@]}")"
[[ $expected == "$found" ]] || fail "the worker leads to other states once its code is laid out anew"
say "The worker took $after ms of CPU time where it took $before, and led to the same states"
