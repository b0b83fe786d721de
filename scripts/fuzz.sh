#!/usr/bin/env bash
# Fuzzes each target, or the named ones, for TIME seconds under AddressSanitizer: with a nightly
# toolchain, or with a stable one that may use nightly features (RUSTC_BOOTSTRAP). SANITIZER=none
# runs without it, and builds faster.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fuzz --version > /dev/null 2>&1 || {
  echo 'fuzz: cargo-fuzz is missing: cargo install cargo-fuzz --locked' >&2
  exit 1
}
toolchain=()
if cargo +nightly --version > /dev/null 2>&1; then
  toolchain=(+nightly)
else
  export RUSTC_BOOTSTRAP=1
fi
[[ $# -gt 0 ]] || set -- manifest frames sql parquet
for target in "$@"; do
  cargo "${toolchain[@]}" fuzz run --sanitizer "${SANITIZER:-address}" --codegen-units 16 "$target" -- \
    -max_total_time="${TIME:-60}" -max_len=524288
done
