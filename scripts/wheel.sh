#!/usr/bin/env bash
# Builds the Python package into the folder `wheels` of the build products:
#   scripts/wheel.sh [dev|release|dist]
# The module and the worker are built one after the other, since they need other features of the
# library. maturin builds the module: its arguments differ from those of a plain build, which would
# be a second one.
# `dist` is for a wheel that is given away: twice the time of `release`. llvm-bolt lays out the code of
# the worker by a profile, and advzip compresses the wheel again, to 0.97 of its size. With `dev`
# nothing is optimised, which is quick, and enough for tests.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

profile=${1:-release}
folder=$profile wheels=$target/wheels level=9
[[ $profile != dev ]] || folder=debug wheels=$target/wheels-dev level=1
scripts=crates/python/steplake.data/scripts

if [[ $profile == dist ]]; then
    scripts/install-debian.sh bolt-22 advancecomp
    export STEPLAKE_RELOCATIONS=1
fi
cargo build --profile "$profile" --locked "${packages[@]}" --bin steplake-worker
rm --recursive --force "$scripts" "$wheels"
mkdir --parents "$scripts"
if [[ $profile == dist ]]; then
    # By itself: the examples of all packages would need what their tests need.
    cargo build --profile "$profile" --locked --package steplake-compilers --features compiler \
        --example walks
    scripts/bolt.sh "$target/$folder/steplake-worker" "$target/$folder/examples/walks" \
        "$scripts/steplake-worker"
else
    strip -o "$scripts/steplake-worker" "$target/$folder/steplake-worker"
fi
linked=()
[[ $profile == dev ]] || linked=(--strip)
# Functions of one code are kept once. Rust does not promise that their addresses differ.
[[ $profile != dist ]] || linked+=(-- -C link-arg=-Wl,--icf=all)
scripts/python.sh --requirements crates/python/requirements.txt -m maturin build --locked \
    --profile "$profile" --manifest-path crates/python/Cargo.toml --out "$wheels" \
    --compression-level "$level" "${linked[@]}"
[[ $profile != dist ]] || advzip --recompress --shrink-extra --keep-file-time --quiet "$wheels"/*.whl
