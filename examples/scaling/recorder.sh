#!/usr/bin/env bash
# Records as recorder I of N, and publishes into one lake at $PLACE, as the others do:
#   PLACE=s3://bucket/lake ARGUMENTS="--benchmark generator://csmith-v0/0..9999 --episodes 2000" recorder.sh I N ROUNDS
# Each round is a run with a seed of its own. It may be killed at any moment. If it is started again, it goes on with
# the round that was interrupted. Do not use --policy frontier: after a fetch, it would play a round again.
set -euo pipefail

index=$1 count=$2 rounds=$3
: "${PLACE:?where the lake is published, e.g. s3://bucket/lake}"
: "${ARGUMENTS:?what to generate in each round, without a seed}"
read -r -a arguments <<<"$ARGUMENTS"
# A local disk: a recording lake must not lie on a network file system. Each place has a folder of its own.
folder=${SCRATCH:-${TMPDIR:-/tmp}}/steplake-$(printf %s "$PLACE" | sha256sum | cut -c 1-16)-recorder-$index
export STEPLAKE_LAKE=$folder/lake
mkdir --parents "$folder"
# A killed publication leaves its merge here.
rm --recursive --force "$folder"/.steplake-publish-*

if [[ ! -e $STEPLAKE_LAKE/lake.json ]]; then
    status=0
    steplake fetch "$PLACE" || status=$?
    # 6: nothing is published yet.
    [[ $status == 0 || $status == 6 ]] || exit "$status"
fi
round=$(cat "$folder/round" 2>/dev/null || true)
for ((round = ${round:-0}; round < rounds; round++)); do
    steplake generate --resume --seed $((round * count + index)) "${arguments[@]}"
    steplake publish "$PLACE" --merge
    # The version has all of this lake, which gets what the others have published.
    steplake fetch "$PLACE"
    echo $((round + 1)) >"$folder/round"
done
