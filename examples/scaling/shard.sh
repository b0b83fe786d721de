#!/usr/bin/env bash
# Plays shard I of N of a run, and publishes it at $PLACE/shard-I:
#   PLACE=s3://bucket/run ARGUMENTS="--benchmark generator://csmith-v0/0..9999 --episodes 200000" shard.sh I N
# If it is started again, on any machine, it continues from the newest published version. On SIGTERM it publishes
# what it has and ends with 130; the scheduler then starts it again.
set -euo pipefail

index=$1 count=$2
: "${PLACE:?where the shards are published, e.g. s3://bucket/run}"
: "${ARGUMENTS:?what to generate: the same for every shard}"
place=$PLACE/shard-$index
# A local disk: a recording lake must not lie on a network file system. Each place has a folder of its own.
STEPLAKE_LAKE=${SCRATCH:-${TMPDIR:-/tmp}}/steplake-$(printf %s "$PLACE" | sha256sum | cut -c 1-16)-shard-$index
export STEPLAKE_LAKE

# Runs a command; its exit code goes to `status`. The command runs in the background, since only `wait` lets a trap
# run at once. Some schedulers signal only this shell, so the trap passes SIGTERM on.
child='' told=0
trap 'told=$((told + 1)); [[ -z $child ]] || kill -TERM "$child" 2>/dev/null || true' TERM
run() {
    local before=-1
    "$@" &
    child=$!
    ((told == 0)) || kill -TERM "$child" 2>/dev/null || true
    # A signal ends `wait` before the child ends.
    while ((before != told)); do
        before=$told status=0
        wait "$child" || status=$?
    done
    child=''
}
stop_if_told() {
    ((told == 0)) || exit 130
}

# First publish what an earlier attempt left here. Then make room for the published version, which may hold more:
# the shard may have continued elsewhere meanwhile.
left=$STEPLAKE_LAKE.left
if [[ -e $STEPLAKE_LAKE/lake.json ]]; then
    steplake seal
    run steplake publish "$place"
    stop_if_told
    case $status in
    # 3: nothing of it is sealed. 7: the shard continued elsewhere, where the episodes left here are played again.
    0 | 3 | 7) ;;
    *) exit "$status" ;;
    esac
    rm --recursive --force "$left"
    mv "$STEPLAKE_LAKE" "$left"
fi
run steplake fetch "$place"
stop_if_told
case $status in
0) rm --recursive --force "$left" ;;
# Nothing is published yet.
6) [[ ! -e $left ]] || mv "$left" "$STEPLAKE_LAKE" ;;
*) exit "$status" ;;
esac

read -r -a arguments <<<"$ARGUMENTS"
run steplake generate --resume --shard "$index/$count" "${arguments[@]}"
ended=$status
# The signal arrived before the program could handle it.
((told == 0 || ended != 143)) || ended=130
if [[ ($ended == 0 || $ended == 130) && -e $STEPLAKE_LAKE/lake.json ]]; then
    steplake seal
    [[ $ended == 130 ]] || steplake dedup
    status=0
    steplake publish "$place" || status=$?
    # 3: it stopped before anything could be sealed.
    [[ $status == 0 || ($ended == 130 && $status == 3) ]] || exit "$status"
fi
exit "$ended"
