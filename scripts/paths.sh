# shellcheck shell=bash
# Sourced by the other scripts: the places of tools and build products.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Tools that the checks need and the system lacks; kept from run to run.
tools=${XDG_CACHE_HOME:-$HOME/.cache}/steplake-ci

# The build folder of cargo. CI discards its checkout, so build products lie outside of it. Its
# checkouts are new, so incremental builds would save nothing there and fill its disk.
if [[ ${CI:-} == true ]]; then
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$tools/target} CARGO_INCREMENTAL=0
fi
# shellcheck disable=SC2034 # for those who source this
target=${CARGO_TARGET_DIR:-$repository/target}

# The packages for the tests, built and tested in one command each: a package built alone gets other
# features in shared dependencies. steplake-remote has commands of its own, since its object stores
# would give DataFusion other features.
# shellcheck disable=SC2034 # for those who source this
packages=(--package steplake --package steplake-model --package steplake-sandbox --package steplake-programs --package steplake-env --package steplake-llvm --package steplake-gcc --package steplake-loops --package steplake-compilers --package steplake-lake --package steplake-campaign --package steplake-query --package steplake-load --package steplake-terminal --package steplake-server --package steplake-flight --package steplake-gym --package steplake-explore --package steplake-worker)

bold='' plain=''
if [[ -t 2 ]]; then bold=$'\033[1m' plain=$'\033[0m'; fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain" >&2; }
fail() { printf '%s\n' "$*" >&2; exit 1; }
