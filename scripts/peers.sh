#!/usr/bin/env bash
# Makes sure of the programs that stand between Holdfast and others in production and that
# its tests stand it behind: nginx and PgBouncer. It starts neither.
set -euo pipefail

missing=()
for peer in nginx pgbouncer; do
  if ! PATH=$PATH:/usr/sbin:/usr/local/sbin command -v "$peer" >/dev/null; then missing+=("$peer"); fi
done
if [ ${#missing[@]} = 0 ]; then exit 0; fi
echo "bringing ${missing[*]}" >&2

# The packages would start servers of their own on the usual ports; nobody asked for them.
by_apt() {
  export DEBIAN_FRONTEND=noninteractive
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  apt-get update -q
  apt-get install -y -q --no-install-recommends "$@"
}

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  by_apt "${missing[@]}" >&2
elif command -v brew >/dev/null; then
  brew install "${missing[@]}" >&2
else
  echo "install ${missing[*]} (Debian: apt-get install, macOS: brew install)" >&2
  exit 1
fi
