"""What the README tells a user to type: its program, and its commands as they are printed.

Its installation is what `./dev first-sum` does in a bare system.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import job_runs
import pytest
import torch_jobs
from processes import LIMIT_S
from shapes import FULL

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch

USE_IT = (
    (job_runs.REPOSITORY / "README.md")
    .read_text()
    .partition("\n## Use it\n")[2]
    .partition("\n## ")[0]
)
(PROGRAM,) = re.findall(r"^```python\n(.*?)^```", USE_IT, re.MULTILINE | re.DOTALL)
COMMAND = "bps run -np 4 python train.py"
# What the reader writes: a rank's share of some data, as many batches on each rank.
BATCHES = """
def batches(rank, size):
    generator = torch.Generator().manual_seed(rank)
    for _ in range(3):
        inputs = torch.randn(8, 64, generator=generator)
        yield inputs, torch.randint(10, (8,), generator=generator)
"""
SAYS = """
print("rank", bps.rank(), "of", bps.size(), "has stepped")
"""


def typed(environment, folder: Path, line: str) -> str:
    """Return what a line prints that is typed beside the program."""
    program = PROGRAM.replace("\nbps.init()\n", f"\nbps.init()\n{BATCHES}", 1)
    (folder / "train.py").write_text(program + SAYS)
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", line],
        env={**environment, "PATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("more", ["", *["--servers 1 "] * FULL])
def test_the_program_and_its_command(environment, tmp_path, more) -> None:
    assert f"\n{COMMAND}\n" in USE_IT
    printed = typed(environment, tmp_path, COMMAND.replace("python", f"{more}python"))
    for rank in range(4):
        assert f"[worker {rank}] rank {rank} of 4 has stepped" in printed.splitlines()
