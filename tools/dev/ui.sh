# shellcheck shell=bash
# Progress lines: "[2/6] building (120 files) ... 41 s". The full output of a step goes to a log.

STEP_NUMBER=0
STEP_TOTAL=0
STEP_QUIET=""

# plan_steps N [quiet]: the next N calls of `step` are numbered 1/N to N/N. quiet: those that have
# nothing to do say nothing.
plan_steps() {
  STEP_NUMBER=0
  STEP_TOTAL=$1
  STEP_QUIET=${2:-}
}

# On a terminal, rewrites the line once a second with the time and ninja's count.
show_ticks() {
  local text=$1 log=$2 started=$3 count
  while sleep 1; do
    count=$(tail -c 2000 "$log" 2>/dev/null | grep -oE '^\[[0-9]+/[0-9]+\]' | tail -n 1 || true)
    printf '\r\033[K%s ... %s s %s' "$text" $((SECONDS - started)) "$count"
  done
}

# step TEXT LOG COMMAND...: runs the command, its output into build/logs/LOG.log. On failure prints
# the last 40 lines and the log's path, and returns the command's status.
step() {
  local text=$1 log="$LOGS/$2.log" started=$SECONDS status=0 ticker=""
  shift 2
  STEP_NUMBER=$((STEP_NUMBER + 1))
  if ((STEP_TOTAL > 0)); then text="[$STEP_NUMBER/$STEP_TOTAL] $text"; fi
  printf '%s ... ' "$text"
  : >"$log"
  if [[ -t 1 ]]; then
    show_ticks "$text" "$log" "$started" &
    ticker=$!
  fi
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if [[ -n $ticker ]]; then
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    printf '\r\033[K%s ... ' "$text"
  fi
  if ((status == 0)); then
    echo "$((SECONDS - started)) s"
  else
    echo "FAILED after $((SECONDS - started)) s (exit status $status)"
    tail -n 40 "$log" | sed 's/^/    /'
    echo "    full log: $log"
  fi
  return "$status"
}

# A step that had nothing to do keeps its number.
step_done() {
  STEP_NUMBER=$((STEP_NUMBER + 1))
  if [[ -n $STEP_QUIET ]]; then return; fi
  if ((STEP_TOTAL > 0)); then
    echo "[$STEP_NUMBER/$STEP_TOTAL] $1"
  else
    echo "$1"
  fi
}

die() {
  echo "dev: $*" >&2
  exit 1
}
