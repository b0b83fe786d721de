#!/usr/bin/env bash
# Builds the reference of the Python package into the folder `doc-python` of the build products. It
# needs no network, there or in a browser.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

folder=$(mktemp --directory)
trap 'rm --recursive --force "$folder"' EXIT
scripts/install-wheel.sh "$folder/environment"
rm --recursive --force "$target/doc-python"
"$folder/environment/bin/python" scripts/reference.py "$target/doc-python"
say "open $target/doc-python/index.html"
