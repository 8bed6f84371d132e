"""A worker: mistakes of all kinds, each an error on every rank, after which all goes on."""

from __future__ import annotations

import checks
import checks_lists
import checks_mismatch

if __name__ == "__main__":
    checks.run(checks_mismatch, checks_lists)
