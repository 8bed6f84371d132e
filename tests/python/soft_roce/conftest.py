"""The workers of these tests are forks of pytest, so it imports the installed package."""

from __future__ import annotations

import sys

from processes import SOURCE

sys.path.remove(str(SOURCE))
