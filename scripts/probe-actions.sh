#!/usr/bin/env bash
# Probes every action over the corpus of docs/ACTIONS.md; writes the report and the flags of the
# action spaces.
#   scripts/probe-actions.sh REPORT [FOLDER OF ACTION TABLES]
# PROBE_ARGUMENTS holds further arguments of `steplake env probe`. Takes about ten minutes on one
# core.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
[[ $# -ge 1 ]] || fail "usage: scripts/probe-actions.sh REPORT [FOLDER]"
report=$(realpath "$1") tables=${2:+$(realpath "$2")}

# C++ programs from two Debian source packages, fetched from the archives that apt knows.
sources=$(mktemp --directory)
trap 'rm -rf "$sources"' EXIT
mkdir -p "$sources/parts" "$sources/lists/partial"
for list in /etc/apt/sources.list.d/*.sources; do
    [[ ! -e $list ]] || sed 's/^Types:.*/Types: deb-src/' "$list" >"$sources/parts/$(basename "$list")"
done
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ ! -e $list ]] || sed -n 's/^deb\(-src\)\? /deb-src /p' "$list" >>"$sources/parts/lists.list"
done
apt=(apt-get -qq -o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$sources/parts"
    -o "Dir::State::lists=$sources/lists")
(cd "$sources" && "${apt[@]}" update && "${apt[@]}" source tinyxml2 double-conversion)

benchmarks=(
    'benchmark://steplake-v0/*'
    'benchmark://debian-v0/zlib/*'
    'benchmark://debian-v0/lz4/lib/*'
    'generator://csmith-v0/0..4'
    'generator://llvm-stress-v0/0..4'
)
for file in "$sources"/tinyxml2-*/tinyxml2.cpp "$sources"/double-conversion-*/double-conversion/*.cc; do
    benchmarks+=("file://$file")
done

# shellcheck disable=SC2086 # words
"$target/release/steplake" env probe ${PROBE_ARGUMENTS:-} ${tables:+--output "$tables"} \
    "${benchmarks[@]/#/--benchmark=}" >"$report"
