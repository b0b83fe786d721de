#!/usr/bin/env bash
# Tests the code for GPUs, without one: as C++ on the processor, and compiled by the NVRTC of PyPI.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

version=13.5.37
environment=$tools/nvrtc-$version
if [[ ! -e $environment/ready ]]; then
    rm --recursive --force "$environment"
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check "nvidia-cuda-nvrtc==$version" >&2 ||
        fail "nvidia-cuda-nvrtc could not be installed: see above"
    touch "$environment/ready"
fi
library=$(find "$environment" -name libnvrtc.so.13 -print -quit)
LD_LIBRARY_PATH=$(dirname "$library") cargo test --locked --package steplake-cuda
