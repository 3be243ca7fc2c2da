#!/usr/bin/env bash
# The whole test run, with what it needs set up first.
#
#   scripts/test.sh          lint, unit, contract on both drivers, end to end
#   scripts/test.sh soak     the kill and crash trials in full number
#   scripts/test.sh bench    the benchmarks behind docs/performance.md
#
# An engine that this script starts is ended when it ends.
set -euo pipefail
cd "$(dirname "$0")/.."

section() { printf '\n\033[1;36m== %s\033[0m\n' "$*"; }

section "set up"
scripts/provision.sh runtime
scripts/provision.sh compose
before=$(scripts/engine.sh env 2>/dev/null || true)
# Clean-up is armed before anything is started.
if [ -z "$before" ]; then
    trap 'scripts/engine.sh stop || true' EXIT
fi
scripts/engine.sh start
eval "$(scripts/engine.sh env)"
images/build.sh base
make --no-print-directory service-image
export SANDBOXD_BIN=$PWD/bin SANDBOXD_TEST_REQUIRE=1

case ${1:-all} in
all)
    section "lint"
    make --no-print-directory lint
    section "unit, contract, end to end, architecture"
    go test -race -timeout 20m ./...
    section "fuzz targets, a moment each"
    scripts/fuzz.sh "${FUZZTIME:-2s}"
    ;;
soak)
    section "soak"
    go test -timeout 3h -run 'Soak|Kill|Crash' -count=1 -v ./sandbox/... ./runtime/ledger/... ./tests/...
    ;;
bench)
    section "benchmarks"
    go test -run '^$' -bench . -benchtime "${BENCHTIME:-1s}" -timeout 60m ./sandbox/agent/... ./runtime/... ./tests/...
    ;;
*) echo "usage: scripts/test.sh [all|soak|bench]" >&2; exit 2 ;;
esac
printf '\n\033[1;32mok\033[0m\n'
