#!/usr/bin/env bash
# Builds the Python package without optimisation, installs it into a fresh virtual environment, and
# tests it there. With TORCH=yes, PyTorch and what is tested beside it are there too, which takes
# 4 GB of downloads.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

folder=$(mktemp --directory)
trap 'rm --recursive --force "$folder"' EXIT
requirements=tests/python/package/requirements.txt
if [[ ${TORCH:-} == yes ]]; then
    cat "$requirements" tests/python/package/requirements-torch.txt >"$folder/requirements.txt"
    requirements=$folder/requirements.txt
fi
scripts/install-wheel.sh "$folder/environment" "$requirements"
cargo build --locked "${packages[@]}"

python=$folder/environment/bin/python
STEPLAKE=$target/debug/steplake scripts/bounded.sh 90 "$python" -m unittest discover --start-directory tests/python/package
(cd "$folder" && MPLBACKEND=agg "$repository/scripts/bounded.sh" 30 "$python" "$repository/docs/first_hour.py")
PATH=$target/debug:$PATH scripts/bounded.sh 30 "$python" tests/python/walkthrough/walkthrough.py \
    README.md docs/PYTHON.md docs/TRAINING.md docs/EXTENDING.md
scripts/test-wheel.sh "$target"/wheels-dev/steplake-*.whl 3.11
"$folder/environment/bin/pip" uninstall --quiet --disable-pip-version-check --yes steplake
left=$(find "$folder/environment" -name '*steplake*')
[[ -z $left ]] || fail "pip uninstall left behind: $left"
