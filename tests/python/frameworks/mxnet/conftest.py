"""MXNet 1.9.1 with the numpy of today."""

from __future__ import annotations

import old_numpy  # noqa: F401
import pytest

pytest.importorskip("mxnet", reason="MXNet 1.9.1 needs numpy below 2, and so Python below 3.13")
