#!/usr/bin/env bash
# Tests the explorer's page: that web/dist is what its sources make, and the page itself, in Chromium,
# before a real `steplake explore` on a lake that is recorded for it. With SCREENSHOTS=yes, makes the
# pictures of the documentation again.
set -euo pipefail
source "$(dirname "$0")/paths.sh"
cd "$repository"

"$repository/scripts/install-debian.sh" chromium

made=$(mktemp --directory)
trap 'rm -rf "$made"' EXIT
scripts/web.sh npm run --silent check
scripts/bounded.sh 30 scripts/web.sh npm run --silent test
scripts/web.sh npm run --silent build -- --outDir "$made/dist" --logLevel warn
diff --recursive --brief web/dist "$made/dist" >&2 ||
    fail "web/dist is not what the sources in web/ make: run \`make web\`, and commit web/dist with them"

if [[ -z ${STEPLAKE:-} ]]; then
    cargo build --locked "${packages[@]}"
    STEPLAKE=$target/debug/steplake
fi
STEPLAKE=$(realpath "$STEPLAKE") CHROMIUM=${CHROMIUM:-$(command -v chromium)} \
    scripts/bounded.sh 60 scripts/web.sh npm run --silent test-page
