#!/usr/bin/env bash
# Makes a small lake and has DuckDB and PyArrow read it.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

cargo build --locked
STEPLAKE=$target/debug/steplake scripts/python.sh tests/python/test_readers.py
