"""A worker: other calls than the others make, or the same in another order."""

from __future__ import annotations

import checks
import checks_order

if __name__ == "__main__":
    checks.run(checks_order)
