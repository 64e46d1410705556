#!/usr/bin/env bash
# Starts two daemons and lets the real OpenAI client talk to them. Usage: tests/client/openai_test.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/../.."
program=${1:-build/release/forelay}
modules=build/check/client
mkdir -p "$modules"
cp tests/client/package.json tests/client/package-lock.json tests/client/openai.mjs "$modules/"
if ! cmp -s tests/client/package-lock.json "$modules/.installed"; then
  (cd "$modules" && npm ci --no-audit --no-fund --loglevel=error) || { echo "npm could not install the OpenAI client (tests/client/package-lock.json)"; exit 77; }
  cp tests/client/package-lock.json "$modules/.installed"
fi
exec python3 tests/client/serve_and_run.py "$program" "$modules/openai.mjs"
