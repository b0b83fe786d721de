#!/usr/bin/env bash
# Installs the Python package in bare Debian systems, and uses it there without a network:
#   scripts/test-wheel.sh WHEEL [PYTHON…]
# Such a system has Python and nothing to compile with. A PYTHON is 3.11 (Debian 12's), 3.13
# (Debian 13's) or 3.12, which no Debian release has: one that is installed here, apart from the
# system's own files, is brought into Debian 12. By default 3.11. The roots are kept from run to run.
# Needs root, for `chroot`.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

wheel=$1
shift
if [[ $EUID -ne 0 ]]; then
    say "the wheel was not tried in a bare system: that takes root"
    exit
fi
pythons=("${@:-3.11}")
scripts/install-debian.sh debootstrap
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' |
    head --lines=1)

# Makes the root of a Debian release with its Python.
root_of() {
    local suite=$1 root=$tools/roots/$1
    if [[ ! -e $root/ready ]]; then
        rm --recursive --force "$root"
        mkdir --parents "$root"
        debootstrap --variant=minbase --include=python3,python3-venv "$suite" "$root" "$mirror" \
            > "$root.log" 2>&1 || fail "debootstrap could not make $suite: see $root.log"
        touch "$root/ready"
    fi
    printf '%s' "$root"
}

# Runs a command in a root: without a network, with /proc and /dev.
# shellcheck disable=SC2016 # the inner shell expands these
within() {
    unshare --mount --net bash -c '
        mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" &&
            exec chroot "$0" env -i PATH=/usr/bin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"' "$@"
}

# Installs the wheel for one Python in a root, and tests it.
try() {
    local root=$1 python=$2 version place=$1/trial
    rm --recursive --force "$place"
    mkdir --parents "$place/packages"
    version=$(within "$root" "$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    say "Python $version in Debian $(cat "$root/etc/debian_version")"
    scripts/python.sh -m pip download --quiet --disable-pip-version-check --only-binary :all: \
        --python-version "$version" --dest "$place/packages" \
        --constraint tests/python/package/requirements.txt "$wheel" pyarrow
    cp tests/python/wheel/bare.py "$place"
    "$steplake" --lake "$place/from-outside" generate --quiet --benchmark benchmark://steplake-v0/fourier \
        --episodes 2 --episode-length 8
    within "$root" "$python" -m venv /trial/environment
    within "$root" /trial/environment/bin/pip install --quiet --disable-pip-version-check --no-index \
        --find-links /trial/packages steplake pyarrow
    within "$root" /trial/environment/bin/python /trial/bare.py
    # The program that was built here takes the lake that was recorded there.
    "$steplake" --lake "$place/from-inside" verify --replay 20
    "$steplake" env describe | head --lines=3 | diff - <(
        within "$root" /trial/environment/bin/steplake env describe | head --lines=3)
    within "$root" /trial/environment/bin/pip uninstall --quiet --disable-pip-version-check --yes \
        steplake 2>&1 | grep --invert-match 'running pip as the .root. user' >&2 || true
    left=$(find "$place/environment" -name '*steplake*')
    [[ -z $left ]] || fail "pip uninstall left behind: $left"
    rm --recursive --force "$place"
}

steplake=${STEPLAKE:-$target/debug/steplake}
for python in "${pythons[@]}"; do
    case $python in
        3.11) try "$(root_of bookworm)" /usr/bin/python3 ;;
        3.13) try "$(root_of trixie)" /usr/bin/python3 ;;
        3.12)
            place=$(compgen -G "$HOME/.pyenv/versions/3.12*/bin" | head --lines=1 || true)
            prefix=$(PATH=$place:$PATH python3.12 -c 'import sys; print(sys.base_prefix)' || true)
            if [[ -z $prefix || $prefix == /usr ]]; then
                say "Python 3.12 was not tried: there is none that could be copied"
                continue
            fi
            root=$(root_of bookworm)
            mkdir --parents "$root$prefix"
            cp --archive "$prefix/." "$root$prefix"
            try "$root" "$prefix/bin/python3"
            rm --recursive --force "${root:?}$prefix"
            ;;
        *) fail "test-wheel.sh knows Python 3.11, 3.12 and 3.13, not $python" ;;
    esac
done
