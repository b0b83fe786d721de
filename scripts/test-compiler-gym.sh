#!/usr/bin/env bash
# Has the unmodified client of CompilerGym 0.2.5 play against the service, one that it starts itself
# and one that runs already. The client needs Python 3.10; without one, there is nothing to test.
#   scripts/test-compiler-gym.sh [ARGUMENT…]   # arguments of python, in place of those of the tests
#   STEPLAKE=PROGRAM names the program; by default the debug build
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

find_python() {
    local candidate
    for candidate in python3.10 "$HOME"/.pyenv/versions/3.10.*/bin/python; do
        # A shim of pyenv may be there, and have no Python.
        if "$candidate" -c 'import venv' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
}
base=$(find_python)
if [[ -z $base ]]; then
    say "CompilerGym's client needs Python 3.10, which is neither on the PATH nor in ~/.pyenv: it is not tested."
    exit 0
fi

requirements=tests/python/compiler_gym/requirements.txt
environment=$tools/compiler-gym-$(cat "$requirements" <("$base" --version) | sha256sum | cut --characters=1-16)
if [[ ! -e $environment/ready ]]; then
    rm --recursive --force "$environment"
    "$base" -m venv "$environment"
    install=("$environment/bin/pip" install --quiet --disable-pip-version-check)
    # gym 0.21 is built with tools of its time.
    "${install[@]}" 'setuptools==65.5.0' 'wheel==0.38.4' 'pip==23.0.1' >&2
    "${install[@]}" --no-build-isolation --no-deps --requirement "$requirements" >&2 ||
        fail "the packages of $requirements could not be installed: see above"
    touch "$environment/ready"
fi

if [[ -z ${STEPLAKE:-} ]]; then
    cargo build --locked "${packages[@]}"
    STEPLAKE=$target/debug/steplake
fi
folder=$(mktemp --directory)
trap 'rm --recursive --force "$folder"' EXIT
# Nothing of the user's own installation takes part.
export HOME=$folder/home STEPLAKE PYTHON=$environment/bin/python
export COMPILER_GYM_CACHE=$folder/cache COMPILER_GYM_TRANSIENT_CACHE=$folder/transient COMPILER_GYM_LOGS=$folder/logs
unset COMPILER_GYM_SITE_DATA COMPILER_GYM_SERVICE_ARGS STEPLAKE_LAKE
mkdir "$HOME"
overlay=$(scripts/compiler-gym-overlay.sh "$folder/overlay")
eval "$overlay"
if [[ $# -gt 0 ]]; then
    "$PYTHON" "$@"
else
    scripts/bounded.sh 90 "$PYTHON" -W ignore -m unittest discover --start-directory tests/python/compiler_gym
fi
