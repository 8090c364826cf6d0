#!/usr/bin/env bash
# Checks the texts that scripts/words/clean lists for words that scripts/words/forbidden
# lists. A path is added once it has none of them; then it stays that way.
set -euo pipefail
cd "$(dirname "$0")/.."

patterns=$(grep -vE '^(#|$)' scripts/words/forbidden | paste -sd '|')
mapfile -t paths < <(grep -vE '^(#|$)' scripts/words/clean)
if [ "${1-}" = --count ]; then # what is left, by directory: what to clean next
  git grep -iEc "$patterns" -- '*.go' '*.md' '*.sql' '*.sh' '*.html' '*.yaml' ':!scripts/words' |
    awk -F: '{ n = split($1, part, "/"); sum[n > 1 ? part[1] "/" (n > 2 ? part[2] : "") : "."] += $2 } END { for (d in sum) print sum[d], d }' | sort -n
  exit 0
fi
if git grep -inE "$patterns" -- "${paths[@]}"; then
  echo "words: see the glossary in CONTRIBUTING.md" >&2
  exit 1
fi
