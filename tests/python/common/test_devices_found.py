"""What the native library finds of CUDA and NCCL, and what every adapter says of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from job_runs import what_is_missing
from processes import LIMIT_S, clean_environment

BUILD = Path(__file__).parents[3] / "build/tests"
CUDA = BUILD / "cuda_standin/libbyteps_cuda_standin.so"
NCCL = BUILD / "nccl_standin/libbyteps_nccl_standin_look.so"
pytestmark = [
    pytest.mark.skipif(not CUDA.exists(), reason="the stand-in for CUDA is not built"),
    pytest.mark.skipif(
        bool(what_is_missing("numpy")), reason="byteps is not installed in this Python"
    ),
]
SCRIPT = """
import json
import byteps.numpy as bps
from byteps.common.devices import find_devices, find_nccl
found, nccl = find_devices(), find_nccl()
print(json.dumps([bps.cuda_built(), found.count, found.why_none, bps.nccl_built(), nccl.why_none]))
"""


def found(**settings: str) -> list[object]:
    environment = {**clean_environment(), **settings}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment, cwd="/", capture_output=True, text=True, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    answers: list[object] = json.loads(done.stdout)
    return answers


def test_with_a_driver_and_nccl_they_are_built() -> None:
    answers = found(BYTEPS_CUDA_LIBRARY=str(CUDA), BYTEPS_NCCL_LIBRARY=str(NCCL))
    assert answers == [True, 2, "", 22100, ""]


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a driver")
def test_without_them_they_are_not_and_the_reason_is_said() -> None:
    is_built, count, why, version, why_no_nccl = found(BYTEPS_NCCL_LIBRARY="/none/libnccl.so.2")
    assert (is_built, count, version) == (False, 0, 0)
    assert "libcuda.so.1" in str(why)
    assert "/none/libnccl.so.2" in str(why_no_nccl)


def test_what_is_too_old_is_not_built_and_the_reason_has_its_version() -> None:
    old = str(CUDA).replace("_standin.so", "_standin_old.so")
    old_nccl = str(NCCL).replace("_look.so", "_old.so")
    is_built, _, why, version, why_no_nccl = found(
        BYTEPS_CUDA_LIBRARY=old, BYTEPS_NCCL_LIBRARY=old_nccl
    )
    assert (is_built, version) == (False, 0)
    assert "10.2" in str(why)
    assert "2.18.5" in str(why_no_nccl)


def test_who_keeps_the_library_from_gpus_has_none() -> None:
    is_built, _, why, *_ = found(BYTEPS_CUDA_LIBRARY=str(CUDA), BYTEPS_DEVICE_SUMS="host")
    assert not is_built
    assert "BYTEPS_DEVICE_SUMS" in str(why)
