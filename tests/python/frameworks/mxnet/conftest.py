"""MXNet 1.9.1 with the numpy of today."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "jobs"))

import old_numpy  # noqa: F401

pytest.importorskip("mxnet", reason="MXNet 1.9.1 needs numpy below 2, and so Python below 3.13")
