#!/usr/bin/env bash
# Makes one lake of the N shards below $PLACE, checks it, and publishes it at $PLACE/whole:
#   PLACE=s3://bucket/run merge.sh N
# An incomplete shard is refused, unless INCOMPLETE=yes. The merge needs room for twice the lake in $SCRATCH.
# If it is started again, it fetches only what is missing.
set -euo pipefail

count=$1
: "${PLACE:?where the shards are published, e.g. s3://bucket/run}"
scratch=${SCRATCH:-${TMPDIR:-/tmp}}/steplake-$(printf %s "$PLACE" | sha256sum | cut -c 1-16)-merge

lakes=() incomplete=()
for ((index = 0; index < count; index++)); do
    lake=$scratch/shard-$index
    lakes+=("$lake")
    steplake fetch "$PLACE/shard-$index" --into "$lake"
    complete=$(steplake --lake "$lake" sql --format csv \
        "SELECT count(*) > 0 AND bool_and(finished) AS complete FROM runs" | tail -n 1)
    [[ $complete == true ]] || incomplete+=("$index")
done
if ((${#incomplete[@]} > 0)) && [[ ${INCOMPLETE:-} != yes ]]; then
    echo "not complete: shard ${incomplete[*]} of $count; start them again, or merge what there is with INCOMPLETE=yes" >&2
    exit 3
fi
rm --recursive --force "$scratch/whole"
steplake merge "${lakes[@]}" --into "$scratch/whole"
steplake --lake "$scratch/whole" verify
steplake --lake "$scratch/whole" publish "$PLACE/whole"
