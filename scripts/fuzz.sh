#!/usr/bin/env bash
# Fuzzes each target for TIME seconds, or the targets that are named. With a nightly toolchain under
# AddressSanitizer; with a stable one that is let use what is nightly (RUSTC_BOOTSTRAP) as well. SANITIZER=none
# does without, and builds faster.
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
