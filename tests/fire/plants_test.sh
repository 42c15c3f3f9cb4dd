#!/bin/bash
# Clearing that stops too early is caught, and without that the same test passes.
# Needs --config=plants.
set -u

readonly test_binary="${1:?the zero_fire_test}"
# On the model: real pages are the other test's business.
readonly -a args=(--rounds=200 --gtest_filter='*OnTheFake')

run() {
  env -u XML_OUTPUT_FILE "$test_binary" "${args[@]}" "--plant=$1" 2>&1
}

if ! out=$(run none); then
  printf 'FAILED: without a defect the test fails\n%s\n' "$out" >&2
  exit 1
fi
for plant in early-clean skip-clear; do
  if out=$(run "$plant"); then
    echo "FAILED: --plant=$plant was not caught" >&2
    exit 1
  fi
  if ! grep -q "an extent is called clean and is not" <<<"$out"; then
    printf 'FAILED: --plant=%s: another reason\n%s\n' "$plant" "$out" >&2
    exit 1
  fi
  echo "$plant: caught"
done
