#!/usr/bin/env bash
# Makes the output that the README shows again, from real runs of this tree.
set -euo pipefail
cd "$(dirname "$0")/.."
make --no-print-directory build >/dev/null
work=$(mktemp -d)
trap 'kill "${pid:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

bin/sandboxd demo --repo . >"$work/demo"

SANDBOXD_API_KEY=$(head -c 32 /dev/urandom | base64)
export SANDBOXD_API_KEY
bin/sandboxd serve --listen 127.0.0.1:0 --data "$work/data" 2>"$work/log" &
pid=$!
for _ in $(seq 100); do
    url=$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$work/log")
    [ -z "$url" ] || break
    sleep 0.1
done
api() { curl -sS -H "Authorization: Bearer $SANDBOXD_API_KEY" -H 'Content-Type: application/json' "$@"; }
run=$(api -X POST "$url/v1/runs" | sed -n 's/.*"runId":"\([^"]*\)".*/\1/p')
api "$url/v1/runs/$run/calls" -d '{"toolName":"file.write","arguments":{"path":"hello.py","content":"print(6*7)\n"}}' >/dev/null
api "$url/v1/runs/$run/calls" -d '{"toolName":"shell.run","arguments":{"argv":["python3","hello.py"]}}' | python3 -m json.tool >"$work/curl"
api -X DELETE "$url/v1/runs/$run"

python3 - "$work" <<'PY'
import re, sys
work = sys.argv[1]
text = open("README.md").read()
for name, fence in (("demo", "```"), ("curl", "```json")):
    body = open(f"{work}/{name}").read().strip("\n")
    text = re.sub(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", lambda m: f"{m[1]}{fence}\n{body}\n```{m[2]}", text, flags=re.S)
open("README.md", "w").write(text)
PY
