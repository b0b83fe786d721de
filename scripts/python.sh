#!/usr/bin/env bash
# Runs Python with the pinned packages of tests/python/requirements.txt, from a virtual environment
# that is made once and kept.
set -euo pipefail
source "$(dirname "$0")/paths.sh"

requirements=$repository/tests/python/requirements.txt
environment=$tools/python-$(cat "$requirements" <(python3 --version) | sha256sum | cut --characters=1-16)
if [[ ! -e $environment/ready ]]; then
    rm -rf "$environment"
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements" >&2 ||
        fail "the packages of tests/python/requirements.txt could not be installed: see above"
    touch "$environment/ready"
fi
exec "$environment/bin/python" "$@"
