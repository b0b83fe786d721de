#!/usr/bin/env bash
# Runs Python with pinned packages, in a virtual environment that is created once and kept:
#   scripts/python.sh [--requirements FILE] ARGUMENT…
# Without a file, the packages are those of tests/python/requirements.txt.
set -euo pipefail
source "$(dirname "$0")/paths.sh"

requirements=$repository/tests/python/requirements.txt
if [[ ${1:-} == --requirements ]]; then
    requirements=$2
    shift 2
fi
environment=$tools/python-$(cat "$requirements" <(python3 --version) | sha256sum | cut --characters=1-16)
if [[ ! -e $environment/ready ]]; then
    rm -rf "$environment"
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements" >&2 ||
        fail "the packages of $requirements could not be installed: see above"
    touch "$environment/ready"
fi
exec "$environment/bin/python" "$@"
