#!/usr/bin/env bash
# Makes sure of a browser for the console's tests, where a package manager may bring one.
set -euo pipefail

found() {
  local name
  for name in chromium chromium-browser google-chrome google-chrome-stable chrome headless-shell; do
    if command -v "$name" >/dev/null; then return 0; fi
  done
  [ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ]
}

if found; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >&2
  apt-get install -y -q --no-install-recommends chromium >&2
fi
if ! found; then
  echo "no browser: install chromium (Debian: apt-get install chromium, macOS: brew install --cask google-chrome)" >&2
  exit 1
fi
