#!/usr/bin/env bash
# Runs placement tests in emulated machines with real NUMA nodes and huge pages
# of both sizes, on Debian's own kernel.
#
#   tests/vm/run.sh TOPOLOGY...   two-nodes, one-node, memoryless-node,
#                                 cpuless-node, sparse-ids
#   tests/vm/run.sh all
#   tests/vm/run.sh --list
#
#   --results FILE   appends "STATUS<tab>NAME<tab>REASON" a check to FILE
#   --logs DIR       keeps the guests' consoles there
#   --limit SECONDS  a guest that is not done by then is killed (600)
#   --filter PATTERN only those checks of tests/vm, as --gtest_filter
#
# QEMU emulates the CPUs: no KVM is needed. A guest needs 3 to 7 GiB of memory.
# Installs what is missing (as root). The last line is "N passed, N failed, N
# skipped". The status is 0 if nothing failed, 77 if it cannot be done here, which
# is said and counted as skipped.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=deploy/lib/packages.sh
source "$root/deploy/lib/packages.sh"
# shellcheck source=deploy/lib/pages.sh
source "$root/deploy/lib/pages.sh"
# shellcheck source=deploy/lib/bazel.sh
source "$root/deploy/lib/bazel.sh"
# shellcheck source=tests/vm/lib/topologies.sh
source "$root/tests/vm/lib/topologies.sh"
# shellcheck source=tests/vm/lib/image.sh
source "$root/tests/vm/lib/image.sh"

chosen=()
results=
logs=
limit=600
filter=
work=
qemu_pid=

usage() {
  sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | grep -v '^set '
}

parse() {
  while (($# > 0)); do
    case $1 in
      --list)
        printf '%s\n' "${topologies[@]}"
        exit 0
        ;;
      --results | --logs | --limit | --filter)
        printf -v "${1#--}" '%s' "${2:?$1 needs a value}"
        shift
        ;;
      -h | --help)
        usage
        exit 0
        ;;
      all) chosen+=("${topologies[@]}") ;;
      *)
        if [[ " ${topologies[*]} " != *" $1 "* ]]; then
          echo "there is no topology '$1'; there are: ${topologies[*]}" >&2
          exit 2
        fi
        chosen+=("$1")
        ;;
    esac
    shift
  done
  if ((${#chosen[@]} == 0)); then
    usage >&2
    exit 2
  fi
}

cleanup() {
  local status=$?
  trap '' INT TERM HUP
  trap - EXIT
  foreground_stop
  if [[ -n $qemu_pid ]] && kill -KILL "$qemu_pid" 2>/dev/null; then
    wait "$qemu_pid" 2>/dev/null || true
  fi
  [[ -z $work ]] || rm -rf "$work"
  bazel_leave
  exit "$status"
}

# What is run in the guest, each with its path in the tree and its arguments.
# The first is written for it; the others are tests of any kernel, which borrow
# pages of node 0 and want no others to be there.
guest_programs() { # TOPOLOGY
  echo tests/vm/guest_tests "--gtest_filter=${filter:-*}"
  [[ $1 == two-nodes && -z $filter ]] || return 0
  echo no-pages
  echo daemon/sys/real_huge_memory_test
  echo daemon/sys/inotify_watch_test
}

# Built for all topologies at once.
programs_build() {
  # shellcheck disable=SC2154  # of deploy/lib/bazel.sh
  foreground bazel build "${bazel_progress[@]}" --config=opt \
    //client/hpctl:hpctl //daemon/server:hugepoold \
    //daemon/sys:inotify_watch_test //daemon/sys:real_huge_memory_test \
    //tests/harness:programs //tests/vm:guest_tests || return
  local bin tree=$work/programs path
  bin=$(bazel info --config=opt bazel-bin 2>/dev/null)
  for path in client/hpctl/hpctl daemon/server/hugepoold tests/harness/launch \
    daemon/sys/inotify_watch_test daemon/sys/real_huge_memory_test \
    tests/harness/test_client tests/vm/guest_tests; do
    mkdir -p "$tree/${path%/*}"
    strip --strip-debug -o "$tree/$path" "$bin/$path" || return
  done
  cp "$root/tests/vm/guest.sh" "$tree/"
}

# What is needed for any guest. Fails with $reason set.
prepare() {
  if ! packages_install packages_build packages_test packages_vm; then
    reason="packages are missing"
    return 1
  fi
  image_base || return 1
  programs_build
}

# Starts QEMU, which ends with this script; sets qemu_pid. 1G pages need a CPU that has them. Without erms
# the kernel zeroes by "rep stosq" instead of "rep stosb", whose every byte is a
# step for the emulator: a quarter of the time.
guest_start() { # TOPOLOGY DISK
  # shellcheck disable=SC2154
  TMPDIR=$work setpriv --pdeathsig KILL qemu-system-x86_64 -accel tcg,thread=multi -cpu max,-erms \
    -machine pc -nodefaults -no-reboot -display none -nic none \
    "${guest_machine[@]}" -kernel "$image_kernel" \
    -append "root=/dev/nvme0n1 rw console=ttyS0 panic=-1 \
nokaslr systemd.unit=hugepool-test.service ${guest_kernel[*]}" \
    -drive "if=none,id=base,file=$image_disk,format=raw,snapshot=on" \
    -drive "if=none,id=tests,file=$2,format=raw,readonly=on" \
    -device nvme,id=disks,serial=hugepool \
    -device nvme-ns,drive=base,bus=disks,nsid=1 \
    -device nvme-ns,drive=tests,bus=disks,nsid=2 \
    -serial "file:$work/$1.console" -serial "file:$work/$1.serial" \
    </dev/null 2>"$work/$1.qemu" 9>&- &
  qemu_pid=$!
}

# Runs the tests in one guest; what they found goes to $results.
guest_run() { # TOPOLOGY
  local name=$1 reader_status=0 spare started
  topology "$name"
  # shellcheck disable=SC2154  # of topologies.sh
  echo "== $name ($guest_nodes)"
  spare=$(pages_spare_mib)
  if ((spare < guest_memory + 1024)); then
    skip "$name" "it needs $guest_memory MiB of memory and 1 GiB beside it; $spare MiB are available"
    return 0
  fi
  guest_programs "$name" >"$work/programs/programs"
  image_payload "$work/programs" "$work/tests.ext4"
  : >"$work/$name.serial"
  started=$(date +%s.%N)
  guest_start "$name" "$work/tests.ext4"
  # tail ends with QEMU, and QEMU at the latest with the limit.
  foreground read_guest "$name" "$started" || reader_status=$?
  kill -KILL "$qemu_pid" 2>/dev/null || true
  wait "$qemu_pid" 2>/dev/null || true
  qemu_pid=
  cat "$work/$name.qemu"
  ((reader_status == 0)) || return 1
  check_console "$name"
  # results.py has counted it as failed.
  if ! grep -q "^vm end" "$work/$name.serial"; then
    echo "  it did not come to its end within $limit s; the guest's console ends:"
    tail -n 25 "$work/$name.console" | tr -d '\r' | sed 's/^/    | /'
  fi
  [[ -z $logs ]] || cp "$work/$name".{console,serial} "$logs/"
}

read_guest() { # TOPOLOGY STARTED
  { timeout "$limit" tail -n +1 -s 0.2 -f --pid="$qemu_pid" \
    "$work/$1.serial" || true; } |
    python3 "$root/tests/vm/results.py" "$1" "$2" "$results"
}

# Whether the kernel complained of something.
check_console() { # TOPOLOGY
  local said name=the-kernel-has-nothing-to-say
  if said=$(grep -aE "Oops|BUG:|WARNING: CPU|Out of memory|Kernel panic" \
    "$work/$1.console"); then
    said=$(tr -d '\r' <<<"$said" | head -n 3 | tr '\n' ';')
    printf 'failed\t%s %s\t%s\n' "$1" "$name" "$said" >>"$results"
    echo "  not ok $name: $said"
  else
    printf 'passed\t%s %s\t\n' "$1" "$name" >>"$results"
    echo "  ok $name"
  fi
}

skip() { # TOPOLOGY REASON
  printf 'skipped\t%s\t%s\n' "$1" "$2" >>"$results"
  echo "  skipped $1: $2"
}

count() {
  tail -n "+$((results_before + 1))" "$results" | cut -f 1 | grep -cx "$1" ||
    true
}

main() {
  parse "$@"
  trap cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap 'exit 129' HUP
  work=$(mktemp -d -t hugepool-vm.XXXXXX)
  [[ -n $results ]] || results=$work/results.tsv
  touch "$results"
  [[ -z $logs ]] || mkdir -p "$logs"
  results_before=$(wc -l <"$results")
  bazel_prepare "$root"
  local name reason=
  if prepare; then
    for name in "${chosen[@]}"; do guest_run "$name"; done
  elif [[ -z $reason ]]; then
    return 1
  else
    for name in "${chosen[@]}"; do skip "$name" "$reason"; done
  fi
  echo "$(count passed) passed, $(count failed) failed, $(count skipped) skipped"
  (($(count failed) == 0)) || return 1
  (($(count passed) > 0)) || return 77
}

main "$@"
