#!/usr/bin/env bash
# All checks that need no running platform. Every check runs; the failed ones are named at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
failed=()

check() {
  local name=$1
  shift
  local output
  if output=$("$@" 2>&1); then
    echo "ok      $name"
  else
    echo "FAILED  $name"
    head -60 <<<"$output" | sed 's/^/        /'
    failed+=("$name")
  fi
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export KVCM_DATA_DIR="$scratch/data" DJANGO_SETTINGS_MODULE=kvcm_platform.settings.dev

# drift FILE COMMAND...: the command, given a file name, writes what FILE should hold.
drift() {
  local committed=$1 fresh="$scratch/fresh"
  shift
  "$@" "$fresh" && diff -u "$committed" "$fresh"
}

check "ruff check" ruff check .
check "ruff format" ruff format --check .
check "mypy" mypy
check "import rules" lint-imports --no-cache
check "sizes and names" python .ci/check_tree.py
check "migrations" python manage.py makemigrations --check --dry-run
check "proto" python proto/generate.py --check
check "OpenAPI document" drift frontend/src/api/schema.json \
  python manage.py spectacular --validate --format openapi-json --file
check "front end's API types" drift frontend/src/api/schema.d.ts \
  frontend/node_modules/.bin/openapi-typescript frontend/src/api/schema.json -o
check "configuration table" drift docs/configuration.md python -m kvcm_platform.supervisor.configuration_table
check "front end" npm --prefix frontend run --silent lint
check "front end tests" npm --prefix frontend run --silent test

if [ ${#failed[@]} -gt 0 ]; then
  printf '\nFailed: %s\n' "$(IFS=,; echo "${failed[*]}" | sed 's/,/, /g')"
  exit 1
fi
