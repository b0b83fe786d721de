#!/usr/bin/env bash
# Records a small lake and has networkx read its transition graph.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

cargo build --locked
STEPLAKE=$target/debug/steplake \
    scripts/bounded.sh 30 scripts/python.sh --requirements tests/python/graph/requirements.txt tests/python/graph/test_graphml.py
