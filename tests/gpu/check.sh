#!/usr/bin/env bash
# Installs the wheels beside this file for the Python of the argument (python3), which has torch
# with CUDA, and runs the checks. Needs no network.
set -euo pipefail
cd "$(dirname "$0")"
python=${1:-python3}
"$python" -m pip install --disable-pip-version-check --no-index --find-links wheels byteps-cpp
exec "$python" check.py --json gpu.json
