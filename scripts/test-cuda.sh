#!/usr/bin/env bash
# Tests the code for GPUs, without one: as C++ on the processor, and compiled by the NVRTC of PyPI;
# and the scripts that measure on a GPU, with matplotlib.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

nvrtc=13.5.37
matplotlib=3.11.2
environment=$tools/nvrtc-$nvrtc-matplotlib-$matplotlib
if [[ ! -e $environment/ready ]]; then
    rm --recursive --force "$environment"
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check \
        "nvidia-cuda-nvrtc==$nvrtc" "matplotlib==$matplotlib" >&2 ||
        fail "nvidia-cuda-nvrtc and matplotlib could not be installed: see above"
    touch "$environment/ready"
fi
library=$(find "$environment" -name libnvrtc.so.13 -print -quit)
LD_LIBRARY_PATH=$(dirname "$library") STEPLAKE_PYTHON=$environment/bin/python \
    scripts/bounded.sh 60 cargo test --locked --package steplake-cuda
