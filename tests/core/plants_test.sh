#!/bin/bash
# The mutation proof: each planted defect is caught by the random test, with a
# reason, and without one the same test passes. Needs --config=plants.
set -u

readonly test_binary="${1:?the op_sequence_test}"
# Each defect shows within the first few seeds; a whole run would only repeat.
readonly -a args=(--seeds=6 --ops=4000)
failed=0

log="$(mktemp -d "${TEST_TMPDIR:-/tmp}/plants.XXXXXX")" || exit 1
trap 'rm -rf "$log"' EXIT

run() {  # run PLANT: its output in $log/PLANT, its exit status as the result
  # Its report would take the place of this test's own, and be counted.
  env -u XML_OUTPUT_FILE "$test_binary" "${args[@]}" "--plant=$1" \
    > "$log/$1" 2>&1
}

complain() {  # complain PLANT TEXT
  echo "FAILED: --plant=$1: $2" >&2
  tail -n 30 "$log/$1" >&2
  failed=1
}

run none
case $? in
  0) echo "none: passes" ;;
  *) complain none "the test fails without a defect" ;;
esac

for plant in skip-clear double-grant lose-page early-clean punch-live \
  stale-ledger; do
  run "$plant"
  status=$?
  # The test says "seed N: what is wrong"; the daemon's books die of a check.
  reason="$(grep -m 1 -E 'seed [0-9]+: .|check failed: .' "$log/$plant")"
  if [[ $status -eq 0 ]]; then
    complain "$plant" "was not caught"
  elif [[ $status -eq 2 ]]; then
    complain "$plant" "was not planted (build with --config=plants)"
  elif [[ -z $reason ]]; then
    complain "$plant" "failed with status $status and no reason"
  else
    echo "$plant: caught: ${reason#*seed }"
  fi
done

run no-such-defect
if [[ $? -ne 2 ]] || ! grep -q 'stale-ledger' "$log/no-such-defect"; then
  complain no-such-defect "was not refused with a list of what there is"
fi

exit "$failed"
