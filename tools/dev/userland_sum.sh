#!/usr/bin/env bash
# What a small system runs with an installed wheel (userland.sh): sums with and without servers, and
# a page of the documentation.
set -euo pipefail

bps() { python3.11 -m byteps.cli "$@"; }

export PYTHONPATH=/byteps/site
bps run -np 3 python3.11 first_sum.py
bps run -np 3 --servers 1 python3.11 first_sum.py
site/byteps/bin/bps-server --version
bps docs running | head -n 1
