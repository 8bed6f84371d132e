#!/usr/bin/env bash
# first_sum.sh WHEEL [PYTHON]: installs the wheel and numpy into a new virtual environment, and adds
# up arrays on three workers (first_sum.py). Says how long that took.
set -euo pipefail

main() {
  local wheel=$1 python=${2:-python3} folder started ended
  folder=$(mktemp -d)
  # shellcheck disable=SC2064  # now: the folder is local
  trap "rm -rf '$folder'" EXIT
  started=$(date +%s.%N)
  "$python" -m venv "$folder/venv"
  "$folder/venv/bin/pip" install --disable-pip-version-check --quiet "$wheel" numpy
  cp "$(dirname "${BASH_SOURCE[0]}")/first_sum.py" "$folder"
  # Not here: a checkout in the working directory must not be what is imported.
  cd "$folder"
  venv/bin/bps run -np 3 venv/bin/python first_sum.py
  ended=$(date +%s.%N)
  # With servers, too: the wheel brings their programs.
  venv/bin/bps run -np 3 --servers 1 venv/bin/python first_sum.py
  awk -v a="$started" -v b="$ended" \
    'BEGIN {printf "from the wheel to the first sum: %.1f s\n", b - a}'
}

main "$@"
