#!/usr/bin/env bash
# Makes one lake of the N shards below $PLACE, checks it, and publishes it at $PLACE/whole:
#   PLACE=s3://bucket/run merge.sh N
# It needs room for twice the lake in $SCRATCH. Started again, it fetches only what is missing.
set -euo pipefail

count=$1
: "${PLACE:?where the shards are published, e.g. s3://bucket/run}"
scratch=${SCRATCH:-${TMPDIR:-/tmp}}/steplake-merge

lakes=()
for ((index = 0; index < count; index++)); do
    lakes+=("$scratch/shard-$index")
    steplake fetch "$PLACE/shard-$index" --into "${lakes[-1]}"
done
rm --recursive --force "$scratch/whole"
steplake merge "${lakes[@]}" --into "$scratch/whole"
steplake --lake "$scratch/whole" verify
steplake --lake "$scratch/whole" publish "$PLACE/whole"
