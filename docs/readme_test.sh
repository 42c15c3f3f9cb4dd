#!/usr/bin/env bash
# README's C++ lines are those of the example, which is built and run.
set -euo pipefail

readme=$1
example=$2
lines=0
while IFS= read -r line; do
  [[ -n $line ]] || continue
  if ! grep -qxF -- "$line" "$example"; then
    echo "README shows a line that $example does not have: $line" >&2
    exit 1
  fi
  lines=$((lines + 1))
done < <(sed -n '/^```c++$/,/^```$/p' "$readme" | grep -v '^```')
((lines >= 5)) || { echo "README shows only $lines lines of C++" >&2; exit 1; }
