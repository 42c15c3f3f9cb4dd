#!/usr/bin/env bash
# Runs a bench on this machine.
#
#   tests/bench/run.sh list
#   tests/bench/run.sh NAME [--json] [OPTION...]
#
# Prints a table for people; with --json one JSON object on the last line:
# {"name":…,"aims":[{"what":…,"value":…,"aim":…,"met":…},…],…}. OPTIONs go to the
# bench (the end of its source says which). Builds what it needs with
# --config=opt, borrows huge pages from the kernel and gives them back. What
# counts are ratios within one run; keep the machine quiet.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=deploy/lib/packages.sh
source "$root/deploy/lib/packages.sh"
# shellcheck source=deploy/lib/pages.sh
source "$root/deploy/lib/pages.sh"
# shellcheck source=deploy/lib/bazel.sh
source "$root/deploy/lib/bazel.sh"

# What each compares.
declare -A what=(
  [acquire]="1 GiB leased and touched, against the kernel's ways"
  [overhead]="Acquire against a bare call of gRPC and a bare passed descriptor"
  [churn]="leasing, writing and releasing without pause, against the kernel"
  [clear]="zeroing in place by threads, against a raw loop and populating again"
  [copy]="a copy into clean memory, into memory made for it, and into fresh pages"
  [deferred]="ranges released by many threads, with and without the look before the lock"
  [drained]="a pool given back and asked for at once, against the zeroing alone"
  [fill]="populating by threads"
  [manners]="what others feel of zeroing in the background"
  [idle]="CPU time of a daemon that has nothing to do"
  [target-last]="what is left in the caches, by order and kind of stores"
)
# Free pages it needs, of 2 MiB and of 1 GiB: for its pool and the comparison.
declare -A pages_2m=([acquire]=1024 [overhead]=512 [churn]=2048 [clear]=512
  [copy]=512 [deferred]=0 [drained]=1024 [fill]=512 [target-last]=64 [manners]=64
  [idle]=1040)
declare -A pages_1g=([acquire]=2 [overhead]=0 [churn]=0 [clear]=1 [copy]=0
  [deferred]=0 [drained]=2 [fill]=2 [target-last]=0 [manners]=0 [idle]=0)

usage() {
  sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | grep -v '^set '
}

cleanup() {
  local status=$?
  trap '' INT TERM HUP
  trap - EXIT
  foreground_stop
  pages_unlock || status=1
  bazel_leave
  exit "$status"
}

# Progress and Bazel's words go to standard error: the last line of standard
# output is the result's.
build() {
  # shellcheck disable=SC2154  # bazel_progress is in deploy/lib/bazel.sh
  foreground bazel build --config=opt "${bazel_progress[@]}" \
    "//tests/bench:$1" >&2
  bin=$(bazel info --config=opt bazel-bin 2>/dev/null)
}

borrow() {
  local free node
  ((pages_1g[$1] + pages_2m[$1] > 0)) || return 0
  if ! pages_available; then
    echo "needs huge pages, and only root can ask the kernel for them" >&2
    return 1
  fi
  pages_lock >&2
  node=$(pages_roomiest_node)
  if ((pages_1g[$1] > 0)); then
    free=$(pages_raise "$node" 1048576 "${pages_1g[$1]}")
    ((free >= pages_1g[$1])) || {
      echo "the kernel gave $free of ${pages_1g[$1]} pages of 1 GiB" >&2
      return 1
    }
  fi
  free=$(pages_raise "$node" 2048 "${pages_2m[$1]}")
  ((free >= pages_2m[$1])) || {
    echo "the kernel gave $free of ${pages_2m[$1]} pages of 2 MiB" >&2
    return 1
  }
}

list() {
  local each
  for each in "${!what[@]}"; do
    printf '%-10s %s\n' "$each" "${what[$each]}"
  done | sort
  echo "forecast   a model of large machines; measures nothing"
}

main() {
  local name=${1:-}
  if [[ $name == list ]]; then
    list
    return
  fi
  if [[ $name == forecast ]]; then
    exec "$root/tests/bench/forecast.py"
  fi
  if [[ -z $name || -z ${what[$name]:-} ]]; then
    usage >&2
    return 2
  fi
  shift
  trap cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap 'exit 129' HUP
  packages_install packages_build packages_test >&2
  bazel_prepare "$root"
  build "$name"
  borrow "$name"
  # The bench finds its daemon relative to where it runs.
  cd "$bin/tests/bench/$name.runfiles/hugepool"
  foreground "$bin/tests/bench/$name" "$@"
}

main "$@"
