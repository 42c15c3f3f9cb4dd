#!/usr/bin/env bash
# From a clone to a leased, already-zero huge page.
#
#   deploy/quickstart.sh [--backend auto|shmem] [--rounds N] [--config NAME]
#
# Installs what is missing, builds, borrows a few huge pages from the kernel,
# starts a hugepoold of its own in a private directory, leases 1 GiB as one page
# of 1 GiB and 1 GiB as pages of 2 MiB, proves them zero, writes them, gives them
# back, and compares with what a program does without hugepool. At its end the
# kernel's counters and the processes are as they were before, also when it is
# interrupted.
#
#   --backend shmem  ordinary memory, as on a machine without huge pages to give
#   --rounds N       how often each size is leased (7); medians are told
#   --config NAME    Bazel's configuration: opt, or fastbuild for none
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

# A pool needs a little more than the 512 pages that are leased at once: it keeps
# small pieces in stock too.
readonly pages_2m=520 pages_1g=1

backend=auto
rounds=7
config=opt
why_shmem=
sizes=()   # of pages, as quickstart.cc has them
work=      # our folder; the daemon's is $work/run
node=0

usage() {
  sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | grep -v '^set '
}

step() {
  steps=$((${steps:-0} + 1))
  echo "[$steps/5] $*"
}

parse() {
  while (($# > 0)); do
    case $1 in
      --backend) backend=${2:?--backend needs a value} ;;
      --rounds) rounds=${2:?--rounds needs a value} ;;
      --config) config=${2:?--config needs a value} ;;
      -h | --help)
        usage
        exit 0
        ;;
      *)
        usage >&2
        exit 2
        ;;
    esac
    shift 2
  done
  [[ $backend == auto || $backend == shmem ]] || {
    usage >&2
    exit 2
  }
}

# Undoes everything. Runs once, whatever ended us.
cleanup() {
  local status=$?
  trap '' INT TERM HUP
  trap - EXIT
  foreground_stop
  daemon_stop || status=1
  pages_unlock || status=1
  [[ -z $work ]] || rm -rf "$work"
  bazel_leave
  [[ ${1:-} == return ]] || exit "$status"
  return "$status"
}

build() {
  local flags=()
  [[ $config == fastbuild ]] || flags=(--config="$config")
  # shellcheck disable=SC2154  # bazel_progress is in deploy/lib/bazel.sh
  foreground bazel build "${flags[@]}" "${bazel_progress[@]}" \
    //daemon/server:hugepoold //client/hpctl:hpctl \
    //deploy/quickstart:quickstart
  local bin
  bin=$(bazel info "${flags[@]}" bazel-bin 2>/dev/null)
  hugepoold=$bin/daemon/server/hugepoold
  hpctl=$bin/client/hpctl/hpctl
  quickstart=$bin/deploy/quickstart/quickstart
}

# For the pool, or beside it for the comparison. $1: pages of 2 MiB. Larger
# pages first: they need memory in one piece. Prints what lacks.
borrow() {
  local free short=
  free=$(pages_raise "$node" 1048576 "$pages_1g")
  ((free >= pages_1g)) || short+=" 1G"
  free=$(pages_raise "$node" 2048 "$1")
  ((free >= $1)) || short+=" 2M"
  echo "$short"
}

# Decides on the backend, and gets the pool's pages from the kernel.
get_pages() {
  local spare short
  spare=$(pages_spare_mib)
  if [[ $backend == shmem ]]; then
    why_shmem="asked for"
  elif ! pages_available; then
    why_shmem="only root can ask the kernel for huge pages"
    ((EUID != 0)) || why_shmem="the kernel offers no huge pages"
  elif ((spare < 3200)); then
    why_shmem="$spare MiB of memory to spare, less than 3200"
  fi
  node=$(pages_roomiest_node)
  if [[ -z $why_shmem ]]; then
    pages_lock
    short=$(borrow "$pages_2m")
    [[ $short == *1G* ]] || sizes+=(1G)
    [[ $short == *2M* ]] || sizes+=(2M)
    ((${#sizes[@]} > 0)) || why_shmem="the kernel gave no huge pages"
  fi
  if [[ -n $why_shmem ]]; then
    backend=shmem
    sizes=(2M)
    echo "  none: $why_shmem. Going on with ordinary memory (backend shmem)"
    ((spare >= 1600)) || echo "  $spare MiB of memory to spare: may be too few"
  else
    echo "  node $node has free pages of: ${sizes[*]}"
  fi
}

start() {
  local flags=()
  [[ -d $work/run ]] || mkdir -m 0700 "$work/run"
  if [[ $backend == shmem ]]; then
    cat >"$work/shmem.yaml" <<-YAML
	backend: shmem
	pools: [{page_size: 2MiB, nodes: [$node], target: $((2 * pages_2m))MiB}]
	YAML
    flags=(--config "$work/shmem.yaml")
  fi
  daemon_start "$work/log" "$hugepoold" --run-dir "$work/run" "${flags[@]}"
  daemon_wait 120 "$work/log" "$hpctl" --socket "$work/run" health --ready
}

# The arguments of quickstart.cc for the comparison go to `compare`.
prepare_comparison() {
  compare=()
  if [[ $backend == shmem ]]; then
    compare=(--ordinary)
    return
  fi
  local size short=
  if (($(pages_spare_mib) >= 3200)); then
    short=$(borrow 512)
  else
    short=" 1G 2M"
  fi
  for size in "${sizes[@]}"; do
    [[ $short == *$size* ]] || continue
    echo "  no second GiB of $size pages: comparing before the daemon starts"
    daemon_stop
    compare+=(--kernel "$("$quickstart" --kernel-only --page "$size" \
      --rounds "$rounds")")
    start
  done
}

lease() {
  local size pages=()
  for size in "${sizes[@]}"; do pages+=(--page "$size"); done
  foreground "$quickstart" --socket "$work/run" "${pages[@]}" \
    --rounds "$rounds" "${compare[@]}" --result "$work/result" \
    -- "$hpctl" --socket "$work/run" status
}

main() {
  parse "$@"
  trap cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap 'exit 129' HUP
  work=$(mktemp -d -t hugepool-quickstart.XXXXXX)

  step "packages"
  packages_install packages_build
  bazel_prepare "$root"
  step "building (the first time takes some minutes)"
  build
  step "huge pages"
  get_pages
  step "starting hugepoold in $work/run"
  start
  step "leasing 1 GiB, $rounds times each way"
  prepare_comparison
  lease

  local result
  result=$(<"$work/result")
  if [[ $backend == shmem ]]; then
    result+=" (shmem backend: $why_shmem)"
  elif [[ ${sizes[*]} != "1G 2M" ]]; then
    result+=" (the kernel had pages of ${sizes[*]} only)"
  fi
  cleanup return
  echo "quickstart ok: $result"
}

main "$@"
