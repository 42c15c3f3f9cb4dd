# shellcheck shell=bash
# A hugepoold of one's own, for as long as a script runs.

daemon_pid=

# daemon_start LOG COMMAND...: starts it; its words go to LOG. It gets SIGTERM
# when the script dies, however that happens. Not in a command substitution.
daemon_start() {
  local log=$1
  shift
  setpriv --pdeathsig TERM "$@" </dev/null >"$log" 2>&1 9>&- &
  daemon_pid=$!
}

# daemon_wait SECONDS LOG COMMAND...: until COMMAND (a look at its health)
# succeeds, a dot a second. Fails, showing the log, when the daemon ends or the
# time is over.
daemon_wait() {
  local seconds=$1 log=$2 i
  shift 2
  for ((i = 0; i < seconds * 10; ++i)); do
    if "$@" >/dev/null 2>&1; then
      ((i < 10)) || echo
      return 0
    fi
    kill -0 "$daemon_pid" 2>/dev/null || break
    ((i % 10 != 9)) || printf '.'
    sleep 0.1
  done
  echo
  if kill -0 "$daemon_pid" 2>/dev/null; then
    echo "the daemon is not ready after $seconds s; its log ends with:" >&2
  else
    echo "the daemon has ended; its log ends with:" >&2
  fi
  tail -n 20 "$log" >&2
  "$@" >&2 || true
  return 1
}

# Stops it and waits: 10 s after SIGTERM it is killed, which counts as a
# failure, as does an exit status other than 0.
daemon_stop() {
  [[ -n $daemon_pid ]] || return 0
  local pid=$daemon_pid i
  daemon_pid=
  kill -TERM "$pid" 2>/dev/null || true
  for ((i = 0; i < 100; ++i)); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  if kill -KILL "$pid" 2>/dev/null; then
    wait "$pid" 2>/dev/null || true
    echo "the daemon did not end within 10 s of SIGTERM and was killed" >&2
    return 1
  fi
  local status=0
  wait "$pid" || status=$?
  ((status == 0)) || echo "the daemon ended with status $status" >&2
  return "$status"
}
