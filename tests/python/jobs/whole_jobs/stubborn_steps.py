"""As steps.py, but the launcher's SIGTERM does not end it: it says itself why it ends."""

from __future__ import annotations

import runpy
import signal
from pathlib import Path

signal.signal(signal.SIGTERM, signal.SIG_IGN)
runpy.run_path(str(Path(__file__).with_name("steps.py")))
