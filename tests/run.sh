#!/usr/bin/env bash
# Runs the tests: everything that this machine can run.
#
#   tests/run.sh                   all parts
#   tests/run.sh --only PATTERN    the part of that name, or all tests in whose
#                                  target's or case's name PATTERN stands (in any
#                                  case; a field case like T6 is not in T60).
#                                  Can be given several times
#   tests/run.sh --list            parts, targets and cases
#
# Installs what is missing (as root). The last line is
# "N passed, N failed, N skipped"; before it stands why something was skipped.
# Logs are in $HUGEPOOL_TEST_LOGS, or a new folder under /tmp. The status is 0
# if nothing failed and the kernel's huge page counters are as before.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=deploy/lib/packages.sh
source "$root/deploy/lib/packages.sh"
# shellcheck source=deploy/lib/pages.sh
source "$root/deploy/lib/pages.sh"
# shellcheck source=deploy/lib/bazel.sh
source "$root/deploy/lib/bazel.sh"
# shellcheck source=deploy/lib/daemon.sh
source "$root/deploy/lib/daemon.sh"
# shellcheck source=tests/lib/parts.sh
source "$root/tests/lib/parts.sh"
# shellcheck source=tests/lib/scripts.sh
source "$root/tests/lib/scripts.sh"

list=
only=()
results=
pages_before=

usage() {
  sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | grep -v '^set '
}

parse() {
  while (($# > 0)); do
    case $1 in
      --list) list=yes ;;
      --only)
        only+=("${2:?--only needs a pattern}")
        shift
        ;;
      -h | --help)
        usage
        exit 0
        ;;
      *)
        usage >&2
        exit 2
        ;;
    esac
    shift
  done
}

cleanup() {
  local status=$?
  trap '' INT TERM HUP
  trap - EXIT
  foreground_stop
  daemon_stop || true
  # Interrupted: the tests that were ended could not give back their pages.
  [[ -z $pages_before ]] || pages_put_back "$pages_before" || true
  [[ -z ${targets_xml:-} ]] || rm -f "$targets_xml"
  bazel_leave
  exit "$status"
}

# Every test, asked of Bazel once.
find_targets() {
  targets_xml=$(mktemp -t hugepool-targets.XXXXXX)
  # shellcheck disable=SC2154  # all_packages is in tests/lib/parts.sh
  local packages="${all_packages[*]}"
  if ! foreground bazel query --noshow_progress --output=xml \
    "tests(${packages// / + })" >"$targets_xml" 2>"$logs/query.log"; then
    cat "$logs/query.log" >&2
    return 1
  fi
}

list_all() {
  labels list
  local name
  # shellcheck disable=SC2154
  for name in "${script_checks[@]}"; do printf '%-15s %s\n' scripts "$name"; done
  printf '%-15s %s\n' vm "two-nodes, an emulated machine; see tests/vm/run.sh"
  for name in one-node memoryless-node cpuless-node sparse-ids; do
    printf '%-15s another such machine; only when asked for\n' "vm-$name"
  done
  echo "asan            all of unit, core and integration"
  echo "tsan            what has threads of its own"
  echo "clang           builds everything; only when asked for"
}

run_part() {
  local begin=$SECONDS
  echo "== $1"
  "part_${1//-/_}"
  echo "   $1: $((SECONDS - begin)) s"
}

# What --only chose, where it is not a whole part: each in its home part.
run_matching() {
  local lines part label filter name pattern flags matched=
  lines=$(labels only "$@")
  while read -r part label filter; do
    [[ -n $part ]] || continue
    matched=yes
    echo "== $part $label $filter"
    flags=(--nocache_test_results --test_output=errors)
    [[ $part != plants ]] || flags+=(--config=plants)
    [[ $filter == "*" ]] || flags+=(--test_filter="$filter")
    bazel_test "$part" "${flags[@]}" -- "$label"
  done <<<"$lines"
  for name in "${script_checks[@]}"; do
    for pattern in "$@"; do
      [[ ${name,,} == *"${pattern,,}"* ]] || continue
      matched=yes
      echo "== scripts $name"
      script_check "$name"
      break
    done
  done
  if [[ -z $matched ]]; then
    echo "nothing is called like: $*; see tests/run.sh --list" >&2
    return 1
  fi
}

run_chosen() {
  local pattern patterns=()
  for pattern in "${only[@]}"; do
    # shellcheck disable=SC2154
    if [[ " ${parts[*]} ${parts_on_demand[*]} " == *" $pattern "* ]]; then
      run_part "$pattern"
    else
      patterns+=("$pattern")
    fi
  done
  ((${#patterns[@]} == 0)) || run_matching "${patterns[@]}"
}

check_pages() {
  local said
  [[ -n $pages_before ]] || return 0
  if said=$(pages_put_back "$pages_before"); then
    record passed pages "nr_hugepages as before"
  else
    record failed pages "nr_hugepages as before" "${said//$'\n'/;}"
    echo "  FAILED nr_hugepages as before:"
    echo "$said"
  fi
  pages_before=
}

count() {
  cut -f 1 "$results" | grep -cx "$1" || true
}

# Returns whether nothing failed.
tell_results() {
  local part name reason status
  if grep -q "^skipped" "$results"; then echo "== skipped"; fi
  while IFS=$'\t' read -r status part name reason; do
    [[ $status != skipped ]] || echo "  $part: $name: $reason"
  done <"$results"
  if grep -q "^failed" "$results"; then echo "== failed"; fi
  while IFS=$'\t' read -r status part name reason; do
    [[ $status != failed ]] || echo "  $part: $name: $reason"
  done <"$results"
  echo "logs: $logs"
}

main() {
  parse "$@"
  trap cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap 'exit 129' HUP
  logs=${HUGEPOOL_TEST_LOGS:-$(mktemp -d -t hugepool-tests.XXXXXX)}
  mkdir -p "$logs"
  results=$logs/results.tsv
  : >"$results"

  if [[ -z $list ]]; then
    echo "== packages"
    packages_install packages_build packages_test
    bazel_prepare "$root"
    # A server that was started before clang was there would not find it.
    # shellcheck disable=SC2154  # of packages_install
    ((packages_installed == 0)) || bazel shutdown >/dev/null 2>&1 || true
  else
    bazel_prepare "$root"
  fi
  find_targets
  if [[ -n $list ]]; then
    list_all
    return
  fi

  pages_before=$(pages_snapshot_settled)
  local part
  if ((${#only[@]} > 0)); then
    run_chosen
  else
    for part in "${parts[@]}"; do run_part "$part"; done
  fi
  check_pages
  tell_results
  echo "$(count passed) passed, $(count failed) failed, $(count skipped) skipped"
  (($(count failed) == 0))
}

main "$@"
