#!/usr/bin/env bash
# Plays shard I of N of a run, and publishes it at $PLACE/shard-I:
#   PLACE=s3://bucket/run ARGUMENTS="--benchmark generator://csmith-v0/0..9999 --episodes 200000" shard.sh I N
# Started again, on whatever machine, it goes on from what was published last. On SIGTERM it publishes what
# there is and ends with 130: whoever started it starts it again.
set -euo pipefail

index=$1 count=$2
: "${PLACE:?where the shards are published, e.g. s3://bucket/run}"
: "${ARGUMENTS:?what to generate: the same for every shard}"
place=$PLACE/shard-$index
# A disk of this machine: a lake that is recorded into does not lie on a network.
export STEPLAKE_LAKE=${SCRATCH:-${TMPDIR:-/tmp}}/steplake-shard-$index

if [[ ! -e $STEPLAKE_LAKE ]] && steplake fetch "$place" --list >/dev/null 2>&1; then
    steplake fetch "$place"
fi

read -r -a arguments <<<"$ARGUMENTS"
steplake generate --resume --shard "$index/$count" "${arguments[@]}" &
child=$!
# Not every scheduler tells more than this shell.
trap 'kill -TERM "$child" 2>/dev/null || true' TERM
status=0
while :; do
    status=0
    wait "$child" || status=$?
    # A signal ends the waiting before the child ends.
    kill -0 "$child" 2>/dev/null || break
done

if [[ $status == 0 || $status == 130 ]]; then
    steplake seal
    [[ $status == 130 ]] || steplake dedup
    steplake publish "$place"
fi
exit "$status"
