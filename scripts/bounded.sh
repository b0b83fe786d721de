#!/usr/bin/env bash
# Runs tests, which end:
#   scripts/bounded.sh MINUTES COMMAND [ARGUMENT…]
# The command gets all signals as a shell in the foreground has them: under `nohup`, and in the
# background of a script, what tests start would go on ignoring Ctrl-C. After so many minutes it is
# ended with all that it has started, and Python says where each of its threads waits.
set -euo pipefail
source "$(dirname "$0")/paths.sh"

minutes=$1
shift
# In a group of its own, which is ended as a whole, a command does not hear of Ctrl-C.
group=()
if [[ -t 0 || -t 2 ]]; then group=(--foreground); fi
status=0
PYTHONFAULTHANDLER=1 env --default-signal timeout "${group[@]}" --signal=ABRT --kill-after=30s "${minutes}m" "$@" ||
    status=$?
if [[ $status == 124 || $status == 137 ]]; then
    fail "this has not ended within $minutes minutes, and is ended: $*"
fi
exit "$status"
