#!/usr/bin/env bash
# Fails if the tree contains one of the large crates in two versions: their types would be
# incompatible, and the build would take twice as long.
set -euo pipefail

tree=$(cargo tree --locked --workspace --target all --edges normal,build --prefix none --format '{p}')
doubled=$(grep --extended-regexp '^(arrow-array|parquet|datafusion|object_store) v' <<<"$tree" |
    cut --delimiter=' ' --fields=1,2 | sort --unique | cut --delimiter=' ' --fields=1 | uniq --repeated)
if [[ -n $doubled ]]; then
    printf "in the tree at two versions (see cargo tree --duplicates):\n%s\n" "$doubled" >&2
    exit 1
fi
