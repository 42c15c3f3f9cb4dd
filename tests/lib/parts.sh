# shellcheck shell=bash
# Variables are shared with the scripts that source this.
# shellcheck disable=SC2034,SC2154
# The parts of tests/run.sh. Each has a function part_NAME (dashes become
# underscores) that runs it and appends to $results: "STATUS<tab>PART<tab>NAME
# <tab>REASON", STATUS being passed, failed or skipped.
#
# $root, $logs, $results and $targets_xml are set by tests/run.sh.

# In the order in which they run: what fails soonest first. `clang` is not run
# unless asked for: the sanitizers' builds are made by clang with the same
# checks of the thread-safety annotations. Nor are the guests other than that of
# `vm`, which has two nodes.
parts=(unit core integration plants random-clients scripts vm asan tsan)
parts_on_demand=(clang vm-one-node vm-memoryless-node vm-cpuless-node
  vm-sparse-ids)

# Everything of ours; not //..., which follows the links of other output bases.
all_packages=(//client/... //daemon/... //deploy/... //docs/... //proto/...
  //tests/...)

# labels COMMAND...: of tests/lib/targets.py, one a line.
labels() {
  python3 "$root/tests/lib/targets.py" "$@" <"$targets_xml"
}

record() { # STATUS PART NAME [REASON]
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "${4:-}" >>"$results"
}

# bazel_test PART FLAG... -- LABEL...: runs and counts them. Never fails: what
# failed is in $results.
bazel_test() {
  local part=$1 flags=() events
  shift
  while [[ $1 != -- ]]; do
    flags+=("$1")
    shift
  done
  shift
  if (($# == 0)); then
    echo "  no such tests"
    return
  fi
  runs=$((${runs:-0} + 1))
  events=$logs/$part.$runs.json
  # shellcheck disable=SC2154  # bazel_progress is in deploy/lib/bazel.sh
  foreground bazel test --keep_going "${bazel_progress[@]}" "${flags[@]}" \
    --build_event_json_file="$events" "$@" || true
  python3 "$root/tests/lib/report.py" "$part" "$events" "$results" "$@"
}

# home_part NAME FLAG...: the tests that belong to it.
home_part() {
  local part=$1 targets
  shift
  mapfile -t targets < <(labels part "$part")
  bazel_test "$part" "$@" -- "${targets[@]}"
}

part_unit() { home_part unit; }
part_core() { home_part core; }
# What these see of the machine is no input that Bazel knows of: never cached.
part_integration() { home_part integration --nocache_test_results; }
part_random_clients() { home_part random-clients --nocache_test_results; }
part_plants() { home_part plants --config=plants --nocache_test_results; }

part_vm() { guest vm two-nodes; }
part_vm_one_node() { guest vm-one-node one-node; }
part_vm_memoryless_node() { guest vm-memoryless-node memoryless-node; }
part_vm_cpuless_node() { guest vm-cpuless-node cpuless-node; }
part_vm_sparse_ids() { guest vm-sparse-ids sparse-ids; }

# guest PART TOPOLOGY: the checks in an emulated machine.
guest() {
  local file=$logs/$1.tsv status=0 what name reason
  : >"$file"
  foreground "$root/tests/vm/run.sh" --results "$file" --logs "$logs" "$2" ||
    status=$?
  while IFS=$'\t' read -r what name reason; do
    record "$what" "$1" "$name" "$reason"
  done <"$file"
  if ((status != 0 && status != 77)) && ! grep -q ^failed "$file"; then
    record failed "$1" "$2" "tests/vm/run.sh ended with status $status"
  fi
}

part_clang() {
  if foreground bazel build --keep_going "${bazel_progress[@]}" --config=clang \
    "${all_packages[@]}"; then
    record passed clang "thread-safety annotations"
  else
    record failed clang "thread-safety annotations" "does not build with clang"
  fi
}

# Memory under a sanitizer is several times as slow.
sanitizer_flags=("--test_timeout=180,600,1800,3600")

# sanitizer NAME LABEL...
sanitizer() {
  local name=$1 keep=() label not
  not=$(labels tagged "no-$name")
  shift
  for label in "$@"; do
    grep -qxF -- "$label" <<<"$not" || keep+=("$label")
  done
  bazel_test "$name" --config="$name" "${sanitizer_flags[@]}" -- "${keep[@]}"
}

part_asan() {
  local targets
  mapfile -t targets < <(labels part unit && labels part core &&
    labels part integration)
  sanitizer asan "${targets[@]}"
}

# What has threads of its own: the core, the fd channel, the stewards.
part_tsan() {
  local targets
  mapfile -t targets < <({
    labels tagged tsan
    { labels part unit && labels part core; } | grep -E \
      '^//(daemon/(base|clear|lease|pool|reclaim|service)|client/internal|tests/core)[:/]'
  } | sort -u)
  sanitizer tsan "${targets[@]}"
}
