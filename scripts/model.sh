#!/usr/bin/env bash
# Checks docs/model/purchase.pml with Spin: every configuration must hold in an exhaustive
# search, every guard must be needed, and every statement must be reached. Configurations
# and guards are read from the model, so none can be forgotten. It installs Spin if it is
# missing, and fails if that is impossible.
set -euo pipefail
cd "$(dirname "$0")/.."

model=$PWD/docs/model/purchase.pml
readme=$PWD/docs/model/README.md
properties=11
# A check that takes longer than this is a defect of the model: the longest takes seconds.
check_timeout=900
# Two checks fit into 4 GB with room to spare.
jobs=2

ensure_spin() {
  if command -v spin >/dev/null && command -v cc >/dev/null; then return; fi
  echo "Spin or a C compiler is missing: installing" >&2
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -q && apt-get install -y -q --no-install-recommends spin gcc libc6-dev; } >&2 || true
  elif command -v brew >/dev/null; then
    brew install spin >&2 || true
  fi
  if command -v spin >/dev/null && command -v cc >/dev/null; then return; fi
  echo "Spin is required: install it (Debian: apt-get install spin gcc, macOS: brew install spin)" >&2
  exit 1
}

configurations() { sed -nE 's/^ \* configuration ([a-z_]+): +(.*)$/\1 \2/p' "$model"; }

# Prints the name, the property and the configuration of each guard.
guards() { sed -nE 's|^#ifndef WITHOUT_([A-Z0-9_]+) /\* breaks ([0-9]+) in ([a-z_]+) \*/$|\1 \2 \3|p' "$model"; }

# Every guard must be declared in full, described in the README, and no property may be
# without a guard: a property that nothing can break checks nothing.
check_declarations() {
  local name property configuration declared n
  declared=$(grep -oE '\bWITHOUT_[A-Z0-9_]+' "$model" | grep -v '^WITHOUT_NAME$' | sort -u | wc -l)
  if [ "$(guards | wc -l)" != "$declared" ]; then
    echo "a guard is not declared as '#ifndef WITHOUT_NAME /* breaks N in CONFIGURATION */'" >&2
    return 1
  fi
  while read -r name property configuration; do
    if ! grep -qF "\`$name\`" "$readme"; then echo "README.md does not describe the guard $name" >&2; return 1; fi
    if ! configurations | grep -q "^$configuration "; then echo "guard $name: no configuration $configuration" >&2; return 1; fi
  done < <(guards)
  for n in $(seq $properties); do
    if ! guards | grep -q " $n [a-z_]*$"; then echo "property $n has no guard" >&2; return 1; fi
  done
}

# search DIR FLAGS: generates, compiles and runs one verifier; its output is DIR/out.
search() {
  local dir=$1 compile=(-w -DCOLLAPSE -DVECTORSZ=512) run=(-m2000000 -w22)
  shift
  case " $* " in *' -DWITHOUT_'*) compile+=(-O0) ;; *) compile+=(-O1) ;; esac # most of them run for less time than they compile
  case " $* " in
  *' -DLIVENESS '*) compile+=(-DNFAIR=3) run+=(-a -f) ;;
  *) compile+=(-DSAFETY) ;;
  esac
  mkdir -p "$dir"
  (
    cd "$dir"
    spin -a "$@" "$model" >out 2>&1
    cc "${compile[@]}" -o pan pan.c >>out 2>&1
    TIMEFORMAT='cpu %U' # other work on the machine must not show in the figures
    { time timeout "$check_timeout" nice ./pan "${run[@]}" >out 2>&1; } 2>cpu
  )
}

figures() {
  local states memory
  states=$(sed -nE 's/^ *([0-9]+) states, stored.*/\1/p' "$1/out")
  memory=$(sed -nE 's/^ *([0-9]+)\.[0-9]+.total actual memory usage/\1/p' "$1/out")
  echo "$states states, $(sed -n 's/^cpu //p' "$1/cpu") s, $memory MB"
}

# must_hold DIR CONFIGURATION FLAGS
must_hold() {
  local dir=$1 configuration=$2
  shift 2
  if search "$dir" "$@" && grep -q 'errors: 0$' "$dir/out" &&
    ! grep -qE 'max search depth too small|Search not completed' "$dir/out"; then
    printf '%-31s holds: %s\n' "$configuration" "$(figures "$dir")"
    return
  fi
  echo "$configuration: does not hold, or the search did not end:" >&2
  grep -E 'pan:|error' "$dir/out" >&2 || cat "$dir/out" >&2
  return 1
}

# must_fail DIR GUARD PROPERTY CONFIGURATION FLAGS
must_fail() {
  local dir=$1 guard=$2 property=$3 configuration=$4
  shift 4
  search "$dir" "-DWITHOUT_$guard" "-DONLY=$property" "$@" || true
  if grep -qE 'assertion violated|acceptance cycle' "$dir/out"; then
    printf '%-31s breaks %2s in %s: %s\n' "without $guard" "$property" "$configuration" "$(figures "$dir")"
    return
  fi
  echo "without $guard: property $property still holds in $configuration: the model is too weak, or the guard is redundant" >&2
  return 1
}

# Prints, for each configuration, the checks of it as lines of arguments for this script.
checks() {
  local configuration flags guard property
  while read -r configuration flags; do
    echo must_hold "$work/$configuration" "$configuration" "$flags"
    while read -r guard property; do
      echo must_fail "$work/$guard" "$guard" "$property" "$configuration" "$flags"
    done < <(guards | sed -nE "s/ $configuration$//p")
  done < <(configurations)
}

# A statement that no configuration reaches shows a behavior that the model describes but
# cannot have. What only a removed guard makes possible is marked in the model.
check_reached() {
  local configuration unreached
  unreached=$(
    while read -r configuration _; do
      awk '/^unreached in proctype/ { process = $4 } /^unreached in (init|claim)/ { process = "" }
        process != "" && process != "Monitor" && match($0, /purchase\.pml:[0-9]+, state [0-9]+/) {
          split(substr($0, RSTART, RLENGTH), part, /[:, ]+/); print process, part[2], part[4] }' "$work/$configuration/out" | sort -u
    done < <(configurations) | sort | uniq -c | awk -v all="$(configurations | wc -l)" '$1 == all { print $3 }' | sort -un |
      while read -r line; do sed -n "${line}{/only without/d;/^[[:space:]]*}$/d;s/^/$line: /p}" "$model"; done
  )
  if [ -z "$unreached" ]; then return; fi
  echo "statements that no configuration reaches:" >&2
  echo "$unreached" >&2
  return 1
}

if [ $# -gt 0 ]; then "$@"; exit; fi

ensure_spin
check_declarations
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checks | xargs -P "$jobs" -L 1 "$0"
check_reached
echo "the model holds; each of its $(guards | wc -l) guards is needed"
