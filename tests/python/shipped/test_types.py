"""What a checker of types says to users' programs: right ones pass, and wrong lines are found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from job_runs import what_is_missing
from processes import LIMIT_S

MISSING = what_is_missing("numpy")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"byteps is not installed here: {MISSING}")

PROGRAMS = Path(__file__).parents[1] / "typed"


def test_a_checker_knows_the_types_of_the_package(tmp_path: Path) -> None:
    """Each wrong line of a program has a comment with the error that it must get; an error without
    a comment and a comment without an error both fail."""
    pytest.importorskip("mypy", reason="mypy is not installed here; ./dev lint installs it")
    programs = sorted(str(path) for path in PROGRAMS.glob("*_user.py"))
    assert len(programs) == 6
    # From another folder, so that it sees the installed package and not this checkout.
    command = [sys.executable, "-m", "mypy", f"--config-file={PROGRAMS / 'mypy.ini'}"]
    command += [f"--cache-dir={tmp_path}", f"--python-executable={sys.executable}", *programs]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
