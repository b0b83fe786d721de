#!/usr/bin/env bash
# Builds the Python package into the folder `wheels` of the build products:
#   scripts/wheel.sh [dev]
# The module and the worker are built one after the other: they need other features of the library.
# With `dev` they are not optimised, which is quick, and enough for tests.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

profile=${1:-release}
folder=$profile wheels=$target/wheels level=9
[[ $profile != dev ]] || folder=debug wheels=$target/wheels-dev level=1
scripts=crates/python/steplake.data/scripts

if [[ $profile == dev ]]; then
    cargo build --locked --package steplake-worker
    cargo build --locked --package steplake-python
else
    cargo build --release --locked --package steplake-worker
    cargo build --release --locked --package steplake-python
fi
rm --recursive --force "$scripts" "$wheels"
mkdir --parents "$scripts"
strip -o "$scripts/steplake-worker" "$target/$folder/steplake-worker"
scripts/python.sh --requirements crates/python/requirements.txt -m maturin build --locked \
    --profile "$profile" --manifest-path crates/python/Cargo.toml --out "$wheels" \
    --compression-level "$level"
