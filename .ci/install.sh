#!/usr/bin/env bash
# Makes .venv and installs one lock file into it, unless that very lock file is installed.
# Usage: .ci/install.sh requirements.lock
set -euo pipefail
cd "$(dirname "$0")/.."
lock=$1
python=.venv/bin/python

fail() { echo "$1" >&2; exit 1; }

if [ ! -x "$python" ]; then
  base=""
  for name in ${KVCM_PYTHON:-} python3.13 python3.12 python3.11 python3 python; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then base=$name; break; fi
  done
  [ -n "$base" ] || fail "Python 3.11 or newer is needed and was not found; install it or set KVCM_PYTHON."
  echo "Creating .venv with $("$base" --version)"
  "$base" -m venv .venv || { rm -rf .venv; fail "Python's venv module is incomplete; on Debian install the package python3-venv."; }
fi

# The development lock holds everything of the other one, so either stamp of it will do.
wanted=$(sha256sum "$lock" | cut -d' ' -f1)
development=$(sha256sum requirements-dev.lock | cut -d' ' -f1)
installed=$(cat .venv/.installed 2>/dev/null || true)
if [ "$installed" = "$wanted" ] || [ "$installed" = "$development" ]; then
  exec .ci/native.sh
fi

echo "Installing $lock"
if command -v uv >/dev/null && uv --version >/dev/null 2>&1; then
  uv pip install --quiet --python "$python" --require-hashes -r "$lock"
else
  "$python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
fi
echo "$wanted" > .venv/.installed
exec .ci/native.sh
