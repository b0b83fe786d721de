#!/usr/bin/env bash
# Builds the Python package, and installs it into a new virtual environment:
#   scripts/install-wheel.sh FOLDER [REQUIREMENTS] [PROFILE]
# By default it is not optimised (the profile `dev`).
# The pinned packages are kept from run to run, and the new environment takes them from there.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

folder=$1 requirements=${2:-tests/python/package/requirements.txt} profile=${3:-dev}
scripts/wheel.sh "$profile"
wheels=$target/wheels
[[ $profile != dev ]] || wheels=$target/wheels-dev
kept() { scripts/python.sh --requirements "$requirements" "$@"; }
kept -m venv "$folder"
site='import sysconfig; print(sysconfig.get_path("purelib"))'
kept -c "$site" > "$("$folder/bin/python" -c "$site")/kept.pth"
"$folder/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps \
    "$wheels"/steplake-*.whl
