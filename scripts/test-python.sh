#!/usr/bin/env bash
# Builds the Python package without optimisation, installs it into a fresh virtual environment, and
# tests it there.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

folder=$(mktemp --directory)
trap 'rm --recursive --force "$folder"' EXIT
rm --recursive --force "$target/wheels-dev"
scripts/wheel.sh dev
cargo build --locked "${packages[@]}"

# The pinned packages are kept from run to run, and the new environment takes them from there.
requirements=tests/python/package/requirements.txt
kept() { scripts/python.sh --requirements "$requirements" "$@"; }
kept -m venv "$folder/environment"
site='import sysconfig; print(sysconfig.get_path("purelib"))'
kept -c "$site" > "$("$folder/environment/bin/python" -c "$site")/kept.pth"
"$folder/environment/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps \
    "$target"/wheels-dev/steplake-*.whl

STEPLAKE=$target/debug/steplake "$folder/environment/bin/python" -m unittest discover \
    --start-directory tests/python/package
PATH=$target/debug:$PATH "$folder/environment/bin/python" tests/python/walkthrough/walkthrough.py \
    README.md docs/PYTHON.md docs/EXTENDING.md
"$folder/environment/bin/pip" uninstall --quiet --disable-pip-version-check --yes steplake
left=$(find "$folder/environment" -name '*steplake*')
[[ -z $left ]] || fail "pip uninstall left behind: $left"
