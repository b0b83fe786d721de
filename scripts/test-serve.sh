#!/usr/bin/env bash
# Makes a small lake, serves it, and queries it with Arrow clients: ADBC, pyarrow, polars, pandas,
# DuckDB.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

cargo build --locked "${packages[@]}"
STEPLAKE=$target/debug/steplake \
    scripts/bounded.sh 60 scripts/python.sh --requirements tests/python/serve/requirements.txt -m unittest discover \
    --start-directory tests/python/serve
