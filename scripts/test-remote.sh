#!/usr/bin/env bash
# Publishes lakes to an S3 server that runs here, and fetches them from it.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

cargo build --locked "${packages[@]}"
STEPLAKE=$target/debug/steplake \
    scripts/bounded.sh 60 scripts/python.sh --requirements tests/python/remote/requirements.txt -m unittest discover \
    --start-directory tests/python/remote
