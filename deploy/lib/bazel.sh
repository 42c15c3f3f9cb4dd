# shellcheck shell=bash
# Running Bazel, and anything else that takes long, from a script that must be
# able to clean up at once.

bazel_was_running=
foreground_pid=

# foreground COMMAND...: runs it in the background and waits. Bash handles a
# signal only between commands, but wait() it leaves for one. The command gets
# an empty standard input.
foreground() {
  local status=0
  "$@" </dev/null 9>&- &
  foreground_pid=$!
  wait "$foreground_pid" || status=$?
  foreground_pid=
  return "$status"
}

# Ends what foreground waits for; called by the trap that ended the wait.
foreground_stop() {
  [[ -n $foreground_pid ]] || return 0
  kill -TERM "$foreground_pid" 2>/dev/null || true
  wait "$foreground_pid" 2>/dev/null || true
  foreground_pid=
}

# bazel_prepare ROOT: goes there and notes whether its Bazel server runs.
bazel_prepare() {
  cd "$1" || return
  export HOME=${HOME:-/root}
  export USER=${USER:-$(id -un)}
  local file
  for file in /proc/[0-9]*/cmdline; do
    # The arguments end in NUL: -z makes them lines, -x asks for a whole one.
    if grep -qsxzF -- "--workspace_directory=$1" "$file"; then
      bazel_was_running=yes
      return 0
    fi
  done
}

# Leaves no server behind where there was none.
bazel_leave() {
  [[ -z $bazel_was_running ]] || return 0
  command -v bazel >/dev/null || return 0
  bazel shutdown >/dev/null 2>&1 </dev/null || true
}

# Flags that show that something goes on: a line every 10 s, or a terminal's
# own display.
bazel_progress=(--show_progress)
[[ -t 2 && -z ${CI:-} ]] ||
  bazel_progress+=(--show_progress_rate_limit=10 --curses=no --color=no)
