#!/usr/bin/env bash
# Installs the missing Debian packages among those that building and running steplake needs. If none
# is missing, does nothing and needs no network. Arguments are packages that are wanted besides.
set -euo pipefail

packages=(
    # what the caller needs besides
    "$@"
    # to build
    build-essential pkg-config
    llvm-22-dev zlib1g-dev
    # to make benchmarks: C programs, generated ones, Debian's sources, downloads
    clang-22 csmith libcsmith-dev dpkg-dev xz-utils bzip2 curl
    # to check the Parquet with other readers
    python3-venv
    # to check what programs do after passes
    libclang-rt-22-dev
    # to test the server's TLS
    openssl
)

fail() { printf 'install-debian.sh: %s\n' "$*" >&2; exit 1; }

command -v cargo >/dev/null ||
    fail "cargo is not there: install Rust 1.95 or newer with rustup, then try again"

command -v dpkg-query >/dev/null || fail "this is no Debian system. steplake builds on Debian 12 or newer;
elsewhere, install what these packages hold and run \`cargo build --release\`: ${packages[*]}"

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [[ $status == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null ||
        fail "not root, and there is no sudo. As root, run: apt-get install ${missing[*]}"
    as_root=(sudo)
fi

printf 'installing %s\n' "${missing[*]}" >&2
# A source that cannot be reached is no reason to stop if the packages come from another one.
"${as_root[@]}" apt-get update -qq || printf 'apt-get update failed; going on with what is known\n' >&2
for package in "${missing[@]}"; do
    # Not `apt-cache | grep --quiet`: grep exits at the first match, and pipefail then blames
    # apt-cache.
    if [[ $(LC_ALL=C apt-cache policy "$package") != *"Candidate: "[^\(]* ]]; then
        hint="apt has no package $package."
        [[ $package != *22* ]] ||
            hint+=" Debian 12 has LLVM 22 in its security updates (suite bookworm-security): are they among the apt sources?"
        fail "$hint"
    fi
done
output=$("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --quiet --yes --no-install-recommends "${missing[@]}" 2>&1) ||
    fail "apt-get could not install ${missing[*]}:"$'\n'"$output"
