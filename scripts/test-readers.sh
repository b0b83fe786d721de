#!/usr/bin/env bash
# Makes small lakes and has DuckDB, PyArrow, polars and deltalake read them, one of them while it
# changes, and a small release. With SPARK=yes, Spark reads it as well, and dedup on Spark is tested,
# which takes 450 MB of downloads.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

folder=$(mktemp --directory)
trap 'rm --recursive --force "$folder"' EXIT
export STEPLAKE_TEST_LAKE=$folder/lake STEPLAKE_TEST_LAYERED_LAKE=$folder/layered
cargo build --locked "${packages[@]}"
scripts/bounded.sh 30 cargo test --locked "${packages[@]}" --test it dedup::layers
STEPLAKE=$target/debug/steplake scripts/bounded.sh 60 scripts/python.sh tests/python/test_readers.py
STEPLAKE=$target/debug/steplake scripts/bounded.sh 60 scripts/python.sh tests/python/test_release.py
requirements=tests/python/other_tools/requirements.txt
if [[ ${SPARK:-} == yes ]]; then
    requirements=tests/python/other_tools/requirements-spark.txt
    scripts/install-debian.sh openjdk-17-jre-headless
fi
STEPLAKE=$target/debug/steplake scripts/bounded.sh 60 scripts/python.sh --requirements "$requirements" \
    tests/python/other_tools/test_other_tools.py
if [[ ${SPARK:-} == yes ]]; then
    cargo build --locked --package steplake-remote
    STEPLAKE=$target/debug/steplake scripts/bounded.sh 60 scripts/python.sh \
        --requirements tests/python/spark/requirements.txt tests/python/spark/test_spark.py
fi
