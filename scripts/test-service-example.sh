#!/usr/bin/env bash
# Builds the compiler of examples/service, which is written in C++, serves it, and records, counts and
# queries what it does. Needs gRPC for C++; where that is not installed, there is nothing to test.
#   STEPLAKE=PROGRAM scripts/test-service-example.sh   # by default the debug build
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

if ! pkg-config --exists grpc++ protobuf || ! type protoc grpc_cpp_plugin >/dev/null 2>&1; then
    say "examples/service needs libgrpc++-dev, libprotobuf-dev and protobuf-compiler-grpc, which are not all installed."
    exit 0
fi
if [[ -z ${STEPLAKE:-} ]]; then
    cargo build --locked "${packages[@]}"
    STEPLAKE=$target/debug/steplake
fi

lines=$(cat examples/service/service.cc examples/service/stack_machine.h | wc --lines)
((lines <= 300)) || fail "the example has $lines lines, and its README says 300"

# Generated code and its objects are kept from run to run.
make --silent --directory examples/service OUT="$target/service-example"
folder=$(mktemp --directory)
trap '[[ -z ${service:-} ]] || kill "$service"; rm --recursive --force "$folder"' EXIT
"$target/service-example/service" >"$folder/said" &
service=$!
for _ in {1..600}; do
    [[ ! -s $folder/said ]] || break
    kill -0 "$service" || fail "the service has ended"
    sleep 0.1
done
[[ -s $folder/said ]] || fail "the service has not said within a minute where it is"
address=$(grep --only-matching 'grpc://.*' "$folder/said")/stack-v0

steplake() { "$STEPLAKE" --quiet --lake "$folder/lake" "$@"; }
# The answer $2 to the question $1.
expect() {
    local answer
    answer=$(steplake sql --format csv "$1" | tail --lines=+2)
    [[ $answer == "$2" ]] || fail "$1"$'\n'"answers"$'\n'"$answer"$'\n'"and not"$'\n'"$2"
}

steplake env describe "$address" | grep 'UpTime .*not deterministic' >/dev/null || fail "UpTime is not left out"
steplake generate --env "$address" --policy explore --episodes 200 --episode-length 10 \
    --benchmark benchmark://stack-v0/polynomial --benchmark benchmark://stack-v0/distance \
    --benchmark benchmark://stack-v0/broken --benchmark "file://$PWD/examples/service/area.stack"
steplake dedup
steplake verify
expect "SELECT count(*) > 100, max(count) > 1 FROM state_transitions" true,true
expect "SELECT count(*) FROM conflicts" 0
expect "SELECT DISTINCT action_name(action), kind, detail FROM failures" \
    "fold-quotients,crash,the compiler divided by zero"
# 2x + 3 + 4 + x * x * 1, after every pass has done what it can.
expect "SELECT split_part(benchmark_uri, '/', -1), best_cost FROM best_sequences('Cycles')
    WHERE benchmark_uri LIKE '%polynomial' OR benchmark_uri LIKE '%area.stack' ORDER BY 1" \
    "area.stack,8.5
polynomial,16.0"
