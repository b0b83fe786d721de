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
# A disk of this machine: a lake that is recorded into does not lie on a network. Each place has a folder of its own.
STEPLAKE_LAKE=${SCRATCH:-${TMPDIR:-/tmp}}/steplake-$(printf %s "$PLACE" | sha256sum | cut -c 1-16)-shard-$index
export STEPLAKE_LAKE

# Runs a command; its exit code goes to `status`. In the background, since only `wait` lets a trap run at once: not
# every scheduler tells more than this shell, so SIGTERM is handed on.
child='' told=0
trap 'told=$((told + 1)); [[ -z $child ]] || kill -TERM "$child" 2>/dev/null || true' TERM
run() {
    local before=-1
    "$@" &
    child=$!
    ((told == 0)) || kill -TERM "$child" 2>/dev/null || true
    # A signal ends the waiting before the child ends.
    while ((before != told)); do
        before=$told status=0
        wait "$child" || status=$?
    done
    child=''
}
stop_if_told() {
    ((told == 0)) || exit 130
}

# What an attempt before this one left here goes first. It makes room for what is published then, which may be more:
# the shard may have gone on elsewhere meanwhile.
left=$STEPLAKE_LAKE.left
if [[ -e $STEPLAKE_LAKE/lake.json ]]; then
    steplake seal
    run steplake publish "$place"
    stop_if_told
    case $status in
    # 3: nothing is sealed of it. 7: it did go on elsewhere, and what is only here is played there.
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
# It was told before it could listen.
((told == 0 || ended != 143)) || ended=130
if [[ ($ended == 0 || $ended == 130) && -e $STEPLAKE_LAKE/lake.json ]]; then
    steplake seal
    [[ $ended == 130 ]] || steplake dedup
    status=0
    steplake publish "$place" || status=$?
    # 3: stopped before anything could be sealed.
    [[ $status == 0 || ($ended == 130 && $status == 3) ]] || exit "$status"
fi
exit "$ended"
