#!/usr/bin/env bash
# Runs the pinned cargo-deny, which is built once and kept. Unoptimised, it builds in half the time
# and checks this tree in seconds.
set -euo pipefail
source "$(dirname "$0")/paths.sh"

version=0.20.2
root=$tools/cargo-deny-$version
if [[ ! -x $root/bin/cargo-deny ]]; then
    # Not into the project's target folder, whose profile and flags do not apply.
    env --unset=CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 cargo install cargo-deny \
        --version "$version" --locked --debug --root "$root"
fi
exec "$root/bin/cargo-deny" "$@"
