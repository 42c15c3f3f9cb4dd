#!/bin/bash
# In the guest, started by its test unit: runs the programs of the list, one
# "PROGRAM ARGUMENT..." a line, and says so between their words. "no-pages" gives
# the huge pages back to the kernel. Standard output is the serial line that
# tests/vm/results.py reads.
cd "$(dirname "$0")" || exit 1
export LD_LIBRARY_PATH=$PWD/lib GTEST_COLOR=no TZ=UTC
echo "vm begin $(uname -r)"
while read -r -a command; do
  if [[ ${command[0]} == no-pages ]]; then
    for file in /sys/devices/system/node/node*/hugepages/*/nr_hugepages; do
      echo 0 >"$file"
    done
    continue
  fi
  echo "vm run ${command[0]}"
  "${command[@]}" </dev/null 2>&1
  echo "vm status $?"
done <programs
echo "vm end"
