#!/usr/bin/env bash
# first_sum.sh WHEEL [PYTHON]: installs the wheel and numpy into a new virtual environment, and adds
# up an array on two workers. Says how long that took.
set -euo pipefail

main() {
  local wheel=$1 python=${2:-python3} folder started ended
  folder=$(mktemp -d)
  # shellcheck disable=SC2064  # now: the folder is local
  trap "rm -rf '$folder'" EXIT
  started=$(date +%s.%N)
  "$python" -m venv "$folder/venv"
  "$folder/venv/bin/pip" install --disable-pip-version-check --quiet "$wheel" numpy
  cat >"$folder/first_sum.py" <<'PROGRAM'
import numpy as np

import byteps.numpy as bps

bps.init()
total = bps.allreduce(np.arange(4.0), op=bps.Sum, name="first")
assert total.tolist() == [0.0, 2.0, 4.0, 6.0], total
print("first sum:", total.tolist())
PROGRAM
  # Not here: a checkout in the working directory must not be what is imported.
  cd "$folder"
  venv/bin/bps run -np 2 venv/bin/python first_sum.py
  ended=$(date +%s.%N)
  # With servers, too: the wheel brings their programs.
  venv/bin/bps run -np 2 --servers 1 venv/bin/python first_sum.py
  awk -v a="$started" -v b="$ended" \
    'BEGIN {printf "from the wheel to the first sum: %.1f s\n", b - a}'
}

main "$@"
