#!/usr/bin/env bash
# Runs the commands in the pages below and compares the answers. With --write, updates the answers
# there. `test-python.sh` runs those of README.md, PYTHON.md and EXTENDING.md.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

pages=(docs/{RECORDING,QUERYING,LOADING,SHARING}.md)
cargo build --locked "${packages[@]}"
# SHARING.md publishes and fetches.
cargo build --locked --package steplake-remote
PATH=$target/debug:$PATH scripts/bounded.sh 60 scripts/python.sh --requirements tests/python/walkthrough/requirements.txt \
    tests/python/walkthrough/walkthrough.py "${pages[@]}" "$@"
