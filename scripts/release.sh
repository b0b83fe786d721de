#!/usr/bin/env bash
# Builds a dataset of so many unique states, ready to be published: a million, or the first argument.
# Killed, it goes on where it stood when it is run again. docs/RELEASING.md says what is in it.
#
# RELEASE is the folder of the dataset (release), which appears complete or not at all; WORK that of
# the lake and of what is kept between calls (release.work); REPLAY the number of transitions that
# are replayed (2,000); PROGRAMS a file with the programs to choose from.
set -euo pipefail
source "$(dirname "$0")/paths.sh"

states=${1:-1000000} replay=${REPLAY:-2000}
release=$(realpath --canonicalize-missing "${RELEASE:-$repository/release}")
work=$(realpath --canonicalize-missing "${WORK:-$repository/release.work}")
if [[ -n ${PROGRAMS:-} ]]; then PROGRAMS=$(realpath "$PROGRAMS"); fi
binary=$(realpath --canonicalize-missing "${STEPLAKE:-$target/release/steplake}")
cd "$repository"
[[ -x $binary ]] || fail "$binary is not there: cargo build --release --locked"
[[ ! -e $release ]] || fail "$release is there, complete: remove it, or name another folder with RELEASE"
export STEPLAKE_LAKE=$work/lake
steplake() { "$binary" "$@"; }
number() { steplake --quiet sql "$1" --format csv | tail --lines=1; }
# Keeps what a command prints, once it is complete.
keep() { # file command...
    "${@:2}" >"$1.part"
    mv "$1.part" "$1"
}

mkdir --parents "$work"
if [[ ! -e $work/states ]]; then keep "$work/states" echo "$states"; fi
[[ $(<"$work/states") == "$states" ]] ||
    fail "$work is of $(<"$work/states") states, not of $states: remove it, or name another folder with WORK"

if [[ ! -e $work/programs ]]; then
    say "1. Programs: one step of each candidate tells its licence and its size"
    source scripts/release/candidates.sh
    candidates "$work/candidates"
    mapfile -t uris <"$work/candidates"
    # A lake of its own, which one that was killed has to make way for.
    rm --recursive --force "$work/candidates.lake"
    steplake --lake "$work/candidates.lake" generate --policy random --ir none --episode-length 1 \
        --episodes "${#uris[@]}" --jobs "$(nproc)" "${uris[@]/#/--benchmark=}"
    chosen() {
        steplake --lake "$work/candidates.lake" sql --file scripts/release/chosen.sql --format csv |
            tail --lines=+2
    }
    keep "$work/programs" chosen
    say "$(wc --lines <"$work/programs") of ${#uris[@]} programs are taken"
fi
mapfile -t programs <"$work/programs"
((${#programs[@]} > 1)) || fail "a release needs at least two programs: see $work/candidates"

say "2. Recording until $states unique states of ${#programs[@]} programs, IR by keyframes"
steplake generate --resume --policy random --seed 0 --states "$states" --ir keyframes=16 \
    --jobs "$(nproc)" "${programs[@]/#/--benchmark=}"

say "3. Seal and dedup"
steplake seal
steplake dedup

say "4. Verify: every digest, every state's SHA-1 and id, and $replay transitions played again"
verified() {
    local status=0
    steplake verify --replay "$replay" --seed 0 || status=$?
    # What a transition leads to now is a figure of the release. All else has to be sound.
    case $status in 0 | 4) ;; *) return "$status" ;; esac
}
if [[ ! -e $work/verified.$replay ]]; then keep "$work/verified.$replay" verified; fi
cat "$work/verified.$replay" >&2

# The files of a package share style, headers and inline functions, so no family is in both parts. One
# can be so large that it would be nearly all of the test part: of the seeds from 0, the first is taken
# whose test part has at least a tenth of the families, and at most a quarter of the rows.
say "5. A split by family, closed over shared states"
families=$(number "SELECT count(DISTINCT family) FROM benchmarks")
split_seed=0
while steplake --quiet splits check --by family --seed "$split_seed" >"$work/split"; do
    read -r train_rows test_rows held_out < <(tr --delete , <"$work/split" |
        sed --quiet --regexp-extended 's/^([0-9]+) .* training ([0-9]+) .* and ([0-9]+) group.*/\1 \2 \3/p') ||
        fail "\`splits check\` says something else than this script knows: $(<"$work/split")"
    if ((held_out * 10 >= families && test_rows * 3 <= train_rows)); then break; fi
    ((++split_seed < 100)) ||
        fail "no split holds out a tenth of the families, and no more than a quarter of the rows"
done
# On the same file system as the folder that it becomes.
beside=$(dirname "$release")/.${release##*/}.part
rm --recursive --force "$beside"
mkdir --parents "$beside"
part=$beside/${release##*/}
steplake export --training --by family --seed "$split_seed" --output "$part"

say "6. The folder: programs, actions, card, checksums"
keep "$work/coverage.csv" steplake --quiet query coverage --format csv
ask() { keep "$work/$1.csv" steplake --quiet sql "$2" --format csv; }
ask recorded "SELECT * FROM benchmarks ORDER BY benchmark_uri"
ask actions "SELECT action, name, pipeline FROM actions ORDER BY action"
ask figures "SELECT (SELECT count(*) FROM observations) AS states,
    (SELECT count(*) FROM steps WHERE action IS NOT NULL) AS steps,
    (SELECT count(*) FROM state_transitions) AS transitions,
    (SELECT count(*) FROM state_transitions WHERE \"count\" > 1) AS repeated,
    (SELECT count(*) FROM (SELECT DISTINCT state_id, action FROM conflicts)) AS conflicts,
    (SELECT count(*) FROM failures) AS failures"
version="$(steplake --version)$(git describe --always --dirty 2>/dev/null | sed 's/.*/ (commit &)/' || true)"
scripts/python.sh scripts/release/lay_out.py "$work" "$part" --replay "$replay" --seed "$split_seed" \
    --version "$version"
find "$part" -exec sync {} +
mv --no-target-directory "$part" "$release"
rmdir "$beside"
sync "$(dirname "$release")"

say "$release: $(number "SELECT count(*) FROM observations") states, $(du --summarize --bytes "$release" |
    cut --fields=1) bytes; $((SECONDS / 60)) minutes in this call"
