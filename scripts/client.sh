#!/usr/bin/env bash
# Does what a stranger does with the API's description: takes it from a running Holdfast,
# has a client generated, compiles that and buys with it. A description that lies about
# what is bought with ends in one of these. `make client` builds what this needs.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
server=

finish() {
  local code=$?
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" || true
  fi
  if [ "$code" != 0 ]; then cat "$work/log" >&2 || true; fi
  rm -rf "$work"
}
trap finish EXIT

# A Holdfast with nothing set, and nothing of the caller's: its own database, the sandbox
# broker and the demo account.
serve() {
  local name
  for name in $(compgen -e | grep -E '^(HOLDFAST_|DATABASE_URL$|PG)' || true); do unset "$name"; done
  HOLDFAST_ADDR=127.0.0.1:0 HOLDFAST_DATA_DIR="$work/data" HOLDFAST_LOG_FORMAT=json \
    exec "$root/bin/holdfast" serve >"$work/out" 2>"$work/log"
}

# printed finds what the server prints before it listens.
printed() { sed -n "s|^$1|\1|p" "$work/out" 2>/dev/null; }

serve &
server=$!
deadline=$((SECONDS + 60))
url=
while [ -z "$url" ]; do
  if ! kill -0 "$server" 2>/dev/null; then echo "client: the server has ended" >&2; exit 1; fi
  if [ "$SECONDS" -ge "$deadline" ]; then echo "client: the server does not listen" >&2; exit 1; fi
  sleep 0.2
  url=$(sed -n 's|.*"msg":"listening","addr":"\([^"]*\)".*|http://\1|p' "$work/log" 2>/dev/null || true)
done

# The client has a module of its own: it must need nothing of ours.
cp -R api/openapi/clientcheck "$work/client"
mkdir "$work/client/holdfast"
bin/oapi-codegen -config api/openapi/clientcheck/oapi-codegen.yaml \
  -o "$work/client/holdfast/holdfast.gen.go" "$url/openapi.json"
(cd "$work/client" && GOWORK=off go build -o "$work/check" .)
HOLDFAST_URL=$url HOLDFAST_API_KEY=$(printed 'client key: \(.*\)') "$work/check"
