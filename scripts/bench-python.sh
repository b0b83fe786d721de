#!/usr/bin/env bash
# Measures the Python package, optimised, against the library:
#   scripts/bench-python.sh [NAME…]
# The names are calls, stepping, vector, tables and memory; by default all.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

folder=$(mktemp --directory)
trap 'rm --recursive --force "$folder"' EXIT
scripts/install-wheel.sh "$folder/environment" tests/python/package/requirements.txt dist
session=$(cargo bench --profile dist --locked "${packages[@]}" --bench session --no-run 2>&1 |
    sed --quiet 's/.*Executable.*(\(.*\))$/\1/p')
"$folder/environment/bin/python" benches/python/main.py "$session" "$@"
