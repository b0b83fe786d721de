#!/usr/bin/env bash
# Tests steplake-remote: alone, and against an S3 server that runs here.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

cargo build --locked "${packages[@]}"
cargo test --locked --no-run --package steplake-remote
scripts/bounded.sh 60 cargo test --locked --package steplake-remote
STEPLAKE=$target/debug/steplake \
    scripts/bounded.sh 60 scripts/python.sh --requirements tests/python/remote/requirements.txt -m unittest discover \
    --start-directory tests/python/remote
