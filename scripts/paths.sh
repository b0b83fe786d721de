# shellcheck shell=bash
# Sourced by the other scripts: where tools and build products lie.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Tools that the checks need and the system does not have; kept from run to run.
tools=${XDG_CACHE_HOME:-$HOME/.cache}/steplake-ci

# Where cargo builds. In CI a checkout is thrown away, so build products lie outside of it.
if [[ ${CI:-} == true && -z ${CARGO_TARGET_DIR:-} ]]; then
    export CARGO_TARGET_DIR=$tools/target
fi
# shellcheck disable=SC2034 # for those who source this
target=${CARGO_TARGET_DIR:-$repository/target}

# What the tests need, built and tested in one command each: what is built for one alone has other features
# chosen in what they have in common, and DataFusion would be built once for each.
# shellcheck disable=SC2034 # for those who source this
packages=(--package steplake --package steplake-remote --package steplake-serve)

bold='' plain=''
if [[ -t 2 ]]; then bold=$'\033[1m' plain=$'\033[0m'; fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain" >&2; }
fail() { printf '%s\n' "$*" >&2; exit 1; }
