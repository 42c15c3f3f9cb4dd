# shellcheck shell=bash
# Borrowing huge pages from the kernel and giving them back.
#
# The kernel's counters belong to the whole machine, so whoever changes them
# holds a lock and leaves a note in it of what they were. The lock file and its
# notes are those of daemon/sys/testing/reserve_pages.cc: a script and a test
# wait for each other, and what a killed one left raised is put back by the next
# of either. A note is "NODE SHIFT TOTAL": the page size is 2^SHIFT bytes.

pages_lock_file=/run/lock/hugepool-test-pages
pages_root=${PAGES_SYSFS_NODES:-/sys/devices/system/node}
pages_locked=

# pages_dir NODE KIB: the folder with the counters.
pages_dir() {
  printf '%s/node%s/hugepages/hugepages-%skB' "$pages_root" "$1" "$2"
}

# Whether the counters can be changed at all.
pages_available() {
  local file
  for file in "$pages_root"/node*/hugepages/hugepages-*kB/nr_hugepages; do
    [[ -w $file ]] && ((EUID == 0)) && return 0
  done
  return 1
}

# Prints "FILE VALUE" for every node and size: what is to be found again.
pages_snapshot() {
  local file
  for file in "$pages_root"/node*/hugepages/hugepages-*kB/nr_hugepages; do
    if [[ -r $file ]]; then printf '%s %s\n' "$file" "$(<"$file")"; fi
  done
}

# The same, at a moment when nobody who keeps to the lock has pages borrowed.
pages_snapshot_settled() {
  if ! pages_available; then
    pages_snapshot
    return
  fi
  pages_lock >&2 || return
  local then=$pages_locked
  pages_unlock
  printf '%s\n' "$then"
}

# pages_put_back SNAPSHOT: makes the counters what they were, and prints those
# that were not. Fails where there were such.
pages_put_back() {
  local file value now changed=
  pages_available || return 0
  pages_lock >&2 || return
  while read -r file value; do
    now=$(<"$file")
    [[ $now == "$value" ]] && continue
    changed=yes
    echo "$file was $value and is $now"
    pages_set "$file" "$value" || true
  done <<<"$1"
  pages_locked=$(pages_snapshot)
  pages_unlock
  [[ -z $changed ]]
}

# pages_set FILE VALUE: writes until it is so, for up to 10 s: pages come back a
# moment after their last user is gone.
pages_set() {
  local _
  for _ in {1..100}; do
    [[ $(<"$1") == "$2" ]] && return 0
    echo "$2" 2>/dev/null >"$1" || return 1
    [[ $(<"$1") == "$2" ]] && return 0
    sleep 0.1
  done
  echo "cannot put back $1: it is $(<"$1") and was $2" >&2
  return 1
}

# Follows the notes of somebody who was killed. The first one of a counter wins;
# none raises a counter.
pages_follow_notes() {
  local node shift total file
  while read -r node shift total; do
    [[ "$node $shift $total" =~ ^[0-9]+\ [0-9]+\ [0-9]+$ ]] || continue
    file=$(pages_dir "$node" $((1 << (shift - 10))))/nr_hugepages
    [[ -r $file ]] || continue
    (($(<"$file") > total)) || continue
    pages_set "$file" "$total" || true
  done < <(tac "$pages_lock_file")
}

# Waits for other users of the counters. The descriptor is 9: close it for
# children that live on (9>&-), or they keep the lock.
pages_lock() {
  [[ -n $pages_locked ]] && return 0
  mkdir -p "${pages_lock_file%/*}"
  exec 9>>"$pages_lock_file" || return 1
  if ! flock -n 9; then
    echo "  another program is using the kernel's huge page counters: waiting"
    flock 9 || return 1
  fi
  pages_follow_notes
  : >"$pages_lock_file"
  pages_locked=$(pages_snapshot)
}

# Puts every counter back to what it was at pages_lock, which it undoes. Does
# nothing where there was none.
pages_unlock() {
  [[ -n $pages_locked ]] || return 0
  local file value status=0
  while read -r file value; do
    pages_set "$file" "$value" || status=1
  done <<<"$pages_locked"
  # With something left raised the notes stay, for whoever comes next.
  ((status != 0)) || : >"$pages_lock_file"
  flock -u 9
  exec 9>&-
  pages_locked=
  return "$status"
}

# pages_raise NODE KIB COUNT: adds to the counter until COUNT pages are free,
# dropping caches and compacting where memory is in pieces. Prints how many are
# free at the end, which can be fewer.
pages_raise() {
  local dir try free total shift=0
  dir=$(pages_dir "$1" "$2")
  if [[ ! -d $dir ]]; then
    echo 0
    return
  fi
  while ((1 << shift < $2 * 1024)); do shift=$((shift + 1)); done
  echo "$1 $shift $(<"$dir/nr_hugepages")" >>"$pages_lock_file"
  for try in 0 1 2 3; do
    free=$(<"$dir/free_hugepages")
    total=$(<"$dir/nr_hugepages")
    ((free < $3)) || break
    if ((try > 0)); then
      sync
      echo 3 >/proc/sys/vm/drop_caches
      echo 1 >/proc/sys/vm/compact_memory
    fi 2>/dev/null
    echo $((total + $3 - free)) 2>/dev/null >"$dir/nr_hugepages" || break
  done
  cat "$dir/free_hugepages"
}

# The node with the most free memory: a page has to be in one piece somewhere.
pages_roomiest_node() {
  local file kib best=0 best_kib=-1
  for file in "$pages_root"/node*/meminfo; do
    [[ -r $file ]] || continue
    kib=$(awk '$3 == "MemFree:" { print $4 }' "$file")
    if ((kib > best_kib)); then
      best_kib=$kib
      best=${file%/meminfo}
      best=${best##*/node}
    fi
  done
  echo "$best"
}

# MiB that could be taken without making the machine swap.
pages_spare_mib() {
  awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo
}
