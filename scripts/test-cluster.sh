#!/usr/bin/env bash
# Tests steplake-cluster with a scheduler and executors as processes against the engine in one
# process, and that `steplake` finds it. Builds into the common target folder, so that only what
# Ballista changes is built again.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/paths.sh

cargo test --locked --no-run --package steplake-cluster
scripts/bounded.sh 60 cargo test --locked --package steplake-cluster

# The program itself, with and without a cluster.
cargo build --locked --bin steplake
bin=$target/debug
folder=$(mktemp --directory)
trap 'kill "${children[@]}" 2>/dev/null || true; rm --recursive --force "$folder"' EXIT
children=()
export STEPLAKE_LAKE=$folder/lake
"$bin/steplake" --quiet generate --env toy-v0 --benchmark 'generator://toy-v0/0..3' --episodes 8
"$bin/steplake" --quiet seal

"$bin/steplake" cluster scheduler --listen 127.0.0.1:0 >"$folder/scheduler" &
children+=($!)
for _ in {1..600}; do
    ! grep --quiet '^scheduler on ' "$folder/scheduler" || break
    kill -0 "${children[0]}"
    sleep 0.2
done
address=$(sed 's/^scheduler on //' "$folder/scheduler")
[[ -n $address ]] || fail "the scheduler has not said within two minutes where it is"
for _ in 1 2; do
    "$bin/steplake" cluster executor --scheduler "$address" --cores 1 >/dev/null &
    children+=($!)
done

question='SELECT action_name(action) AS name, count(*) AS steps FROM steps GROUP BY 1 ORDER BY 1'
"$bin/steplake" sql "$question" --format csv >"$folder/here"
"$bin/steplake" sql "$question" --format csv --engine "ballista://$address" >"$folder/there"
diff "$folder/here" "$folder/there"
echo "$question;" | "$bin/steplake" --quiet sql --format csv --engine "ballista://$address" >"$folder/there"
diff "$folder/here" "$folder/there"
"$bin/steplake" -v query noop_rate --format csv --engine "ballista://$address" >"$folder/there"
"$bin/steplake" query noop_rate --format csv | diff - "$folder/there"
echo "steplake asks on a cluster as in one process"
