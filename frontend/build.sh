#!/usr/bin/env bash
# Builds dist unless it was built from these very sources.
set -euo pipefail
cd "$(dirname "$0")"

fail() { echo "$1" >&2; exit 1; }

sources() { find . \( -name node_modules -o -name dist \) -prune -o -type f -print0 | sort -z; }
wanted=$(sources | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
if [ "$(cat dist/.built 2>/dev/null || true)" = "$wanted" ]; then exit 0; fi

command -v node >/dev/null || fail "Node 20 or newer is needed to build the front end and was not found; install it."
major=$(node -p 'process.versions.node.split(".")[0]')
[ "$major" -ge 20 ] || fail "Node 20 or newer is needed to build the front end; this is $(node --version)."
command -v npm >/dev/null || fail "npm is needed to build the front end and was not found; install it."

packages=$(sha256sum package-lock.json | cut -d' ' -f1)
if [ "$(cat node_modules/.installed 2>/dev/null || true)" != "$packages" ]; then
  echo "Installing the front end's packages"
  npm ci --no-audit --no-fund --loglevel=error
  echo "$packages" > node_modules/.installed
fi
echo "Building the front end"
npm run --silent build
echo "$wanted" > dist/.built
