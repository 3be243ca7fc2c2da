#!/usr/bin/env bash
# Runs every fuzz target of the module for a while each.
#   scripts/fuzz.sh [time]     e.g. 30s
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-30s}
grep -rlE '^func Fuzz' --include='*_test.go' . | sort | while read -r file; do
    grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | while read -r _ target; do
        printf '\033[1m%s\033[0m %s\n' "$target" "$(dirname "$file")"
        go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$(dirname "$file")" </dev/null | tail -1
    done
done
