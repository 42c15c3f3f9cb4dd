# shellcheck shell=bash
# Variables are shared with the scripts that source this.
# shellcheck disable=SC2034,SC2154
# Tests of what is run from a shell: README's first command, the examples.
# Each check_NAME says passed, failed or skipped by its status: 0, 1, or 77 with
# the reason in $reason. What it prints is shown when it fails.

script_checks=(quickstart quickstart-shmem quickstart-interrupted examples
  store-routines-arm64)

# As users run it, that is optimised: some warnings are errors only then.
quickstart_flags=(--rounds 2)

# The result line, as README shows it.
result_pattern='^quickstart ok: 1 GiB of 1G pages ready in [0-9]+ us instead of [0-9]+ us \([0-9.]+ times faster\); 1 GiB of 2M pages ready in [0-9]+ us instead of [0-9]+ us \([0-9.]+ times faster\)$'

# Whether a daemon of the quickstart's is left.
left_behind() {
  grep -qszF -- "hugepool-quickstart." /proc/[0-9]*/cmdline
}

# quickstart_run OUTPUT FLAG...: succeeds if it did, and left nothing.
quickstart_run() {
  local output=$1 before
  shift
  before=$(pages_snapshot_settled)
  foreground "$root/deploy/quickstart.sh" "${quickstart_flags[@]}" "$@" \
    >"$output" 2>&1 || {
    cat "$output"
    return 1
  }
  undone "$before"
}

# undone SNAPSHOT: whether counters and processes are as before.
undone() {
  local now
  now=$(pages_snapshot_settled)
  if [[ $now != "$1" ]]; then
    echo "nr_hugepages was:" "$1" "and is:" "$now"
    return 1
  fi
  if left_behind; then
    echo "a process of the quickstart is left"
    return 1
  fi
}

check_quickstart() {
  local output=$logs/quickstart.txt last
  quickstart_run "$output" || return 1
  last=$(tail -n 1 "$output")
  echo "  $last"
  if [[ $last == *"(shmem backend: "* ]]; then
    reason=${last##*(shmem backend: }
    return 77
  fi
  if [[ $last == *"(the kernel had pages of"* ]]; then
    reason=${last##*(}
    return 77
  fi
  [[ $last =~ $result_pattern ]]
}

check_quickstart_shmem() {
  local output=$logs/quickstart-shmem.txt last
  quickstart_run "$output" --backend shmem || return 1
  last=$(tail -n 1 "$output")
  echo "  $last"
  [[ $last =~ ^quickstart\ ok:\ .*\(shmem\ backend:\ asked\ for\)$ ]]
}

# A SIGTERM while the daemon runs and the kernel's counters are raised.
check_quickstart_interrupted() {
  local output=$logs/quickstart-interrupted.txt before pid i status=0
  before=$(pages_snapshot_settled)
  "$root/deploy/quickstart.sh" "${quickstart_flags[@]}" --rounds 1000 \
    </dev/null >"$output" 2>&1 &
  pid=$!
  for ((i = 0; i < 6000; ++i)); do
    grep -q "round 1 of" "$output" && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -TERM "$pid" 2>/dev/null || true
  wait "$pid" || status=$?
  if ((status != 143)); then
    cat "$output"
    echo "status $status instead of 143"
    return 1
  fi
  undone "$before"
}

# Both 30-line programs, against a daemon of ordinary memory.
check_examples() {
  local bin dir status=0
  foreground bazel build "${bazel_progress[@]}" //daemon/server:hugepoold \
    //client/hpctl:hpctl //client/examples:all || return 1
  bin=$(bazel info bazel-bin 2>/dev/null)
  dir=$(mktemp -d -t hugepool-examples.XXXXXX)
  echo "{backend: shmem, pools: [{page_size: 2MiB, target: 64MiB}]}" \
    >"$dir/config.yaml"
  daemon_start "$dir/log" "$bin/daemon/server/hugepoold" \
    --config "$dir/config.yaml" --run-dir "$dir"
  daemon_wait 60 "$dir/log" "$bin/client/hpctl/hpctl" --socket "$dir" health \
    --ready || status=1
  ((status != 0)) || examples_run "$bin/client/examples" "$dir" || status=1
  daemon_stop || status=1
  rm -rf "$dir"
  return "$status"
}

# The C example does not wait for memory, and the daemon is ready before its
# pools are full.
examples_run() {
  local i
  for ((i = 0; i < 100; ++i)); do
    ! HUGEPOOL_SOCKET_DIR=$2 "$1/acquire_c" || break
    sleep 0.1
  done
  ((i < 100)) && HUGEPOOL_SOCKET_DIR=$2 "$1/acquire_cc"
}

# The store routines of the other architecture, on an emulated CPU of it.
check_store_routines_arm64() {
  local gtest=/usr/src/googletest/googletest dir status=0
  dir=$(mktemp -d -t hugepool-arm64.XXXXXX)
  foreground aarch64-linux-gnu-g++ -O1 -std=c++20 -Wall -Wextra -Werror \
    -Wno-maybe-uninitialized -I"$root" -I"$gtest" -I"$gtest/include" \
    "$root/daemon/clear/store_routines.cc" \
    "$root/daemon/clear/store_routines_test.cc" \
    "$gtest/src/gtest-all.cc" "$gtest/src/gtest_main.cc" -lpthread \
    -o "$dir/test" || status=1
  # A CPU whose lines are of 64 bytes; the default one has DC ZVA of 512.
  ((status != 0)) ||
    foreground qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu cortex-a57 \
      "$dir/test" >"$dir/out" 2>&1 || status=1
  # Skipping what the CPU lacks would show nothing.
  if ((status != 0)) || ! grep -q "OK .*dc_zva" "$dir/out"; then
    cat "$dir/out" 2>/dev/null || true
    status=1
  fi
  tail -n 1 "$dir/out" 2>/dev/null || true
  rm -rf "$dir"
  return "$status"
}

# script_check NAME
script_check() {
  local name=$1 reason="" status=0 log=$logs/$1.log
  echo "  $name ..."
  "check_${name//-/_}" >"$log" 2>&1 || status=$?
  case $status in
    0)
      record passed scripts "$name"
      tail -n 1 "$log"
      ;;
    77)
      record skipped scripts "$name" "$reason"
      echo "  skipped: $reason"
      ;;
    *)
      record failed scripts "$name" "see $log"
      cat "$log"
      echo "  FAILED $name"
      ;;
  esac
}

part_scripts() {
  local name
  for name in "${script_checks[@]}"; do script_check "$name"; done
}
