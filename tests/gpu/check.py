"""What byteps does on this machine's GPU: one command, a line for each check as it comes, and a
table and a file of JSON at the end.

    python check.py [--json FILE] [--seconds N]

It needs an installed byteps, torch with CUDA, and no network. Exit code 0: all checks passed; 1:
one failed; 3: there is no GPU that it could check, and the last line says why.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NO_GPU = 3
MEGABYTE = 1 << 20


@dataclass
class Outcome:
    """What a check has found."""

    name: str
    passed: bool | None  # None: it could not run here
    text: str
    seconds: float


class NoGpuError(Exception):
    """There is nothing to check here."""


class NotHereError(Exception):
    """A check needs what is not installed."""


def driver() -> str:
    """Look for the driver and its functions, as the library does."""
    from byteps.common.devices import find_devices

    found = find_devices()
    if not found.count:
        raise NoGpuError(found.why_none)
    return f"driver {found.driver}: {', '.join(found.names)}"


def framework() -> str:
    """Look whether torch computes on the GPU."""
    try:
        import torch
    except ImportError as error:
        raise NoGpuError(f"torch is not installed: {error}") from error
    if not torch.cuda.is_available():
        raise NoGpuError(f"torch {torch.__version__} sees no GPU: install its build for CUDA")
    return f"torch {torch.__version__}, CUDA {torch.version.cuda}"


def _bits(workers: int, servers: int, limit_s: float, program: str = "bits.py") -> str:
    command = [sys.executable, "-m", "byteps.cli", "run", "-np", str(workers)]
    if servers:
        command += ["--servers", str(servers)]
    command += [sys.executable, str(HERE / program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    printed = done.stdout.splitlines()
    right = [line for line in printed if "all right" in line]
    if done.returncode != 0 or len(right) != workers:
        raise AssertionError((done.stderr or done.stdout)[-500:])
    return right[0].split("all right: ")[-1]


def bits_alone() -> str:
    """Compare the bits in a job of one."""
    return _bits(1, 0, 120)


def bits_of_two() -> str:
    """Compare the bits of two ranks of one machine, which share the GPU if there is one."""
    return _bits(2, 0, 120)


def bits_with_servers() -> str:
    """Compare the bits of two ranks with two servers."""
    return _bits(2, 2, 120)


def ways_of_torch() -> str:
    """Train in several ways with two ranks, and compare with training alone."""
    return _bits(2, 1, 120, "ways.py")


def arrays() -> str:
    """Compare the bits of arrays of CuPy, or of torch by DLPack."""
    return _bits(2, 1, 120, "arrays.py")


def programs_of_jax() -> str:
    """Compare the bits of JAX outside of programs and inside."""
    script = "import jax; print(jax.devices('cuda')[0].device_kind)"
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    asked = subprocess.run(
        [sys.executable, "-c", script],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if asked.returncode != 0:
        raise NotHereError((asked.stderr.strip() or "JAX sees no GPU").splitlines()[-1])
    return _bits(2, 1, 180, "programs.py")


def capture() -> str:
    """An exchange is refused in a capture, and leaves a capture on another stream alone."""
    import torch

    import byteps.torch as bps

    bps.init()
    tensor = torch.ones(1000, device="cuda")
    bps.allreduce_(tensor, name="warm")
    graph = torch.cuda.CUDAGraph()
    refused = ""
    try:
        with torch.cuda.graph(graph):
            tensor.add_(1)
            try:
                bps.allreduce_(tensor, name="captured")
            except bps.InvalidArgumentError as error:
                refused = str(error)
    finally:
        bps.shutdown()
    if "outside" not in refused:
        raise AssertionError(f"it was not refused: {refused!r}")
    graph.replay()
    torch.cuda.synchronize()
    return "refused, and the capture goes on"


def rates() -> str:
    """Measure a push_pull of 64 MB in a job of one beside torch's own copies there and back."""
    import torch

    import byteps.torch as bps

    tensor = torch.ones(16 * MEGABYTE, device="cuda")
    pinned = torch.empty(tensor.shape, pin_memory=True)

    def best(call: Callable[[], object]) -> float:
        times = []
        for _ in range(8):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            call()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begun)
        return min(times)

    def copies() -> None:
        pinned.copy_(tensor, non_blocking=True)
        tensor.copy_(pinned, non_blocking=True)

    bps.init()
    try:
        ours = best(lambda: bps.push_pull_inplace(tensor, name="rate"))
    finally:
        bps.shutdown()
    theirs = best(copies)
    moved = 2 * tensor.nbytes / 1e9
    return f"{moved / ours:.1f} GB/s; torch's copies alone {moved / theirs:.1f} GB/s"


def leaks() -> str:
    """Open and close 20 sessions, and look at what is left."""
    import torch

    import byteps.torch as bps

    def left() -> tuple[int, int]:
        free, _ = torch.cuda.mem_get_info()
        return free, len(list(Path("/proc/self/fd").iterdir()))

    tensor = torch.ones(MEGABYTE, device="cuda")
    before = (0, 0)
    for number in range(21):
        bps.init()
        bps.allreduce_(tensor, name="leak")
        bps.shutdown()
        if number == 0:
            before = left()
    after = left()
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    text = f"{(before[0] - after[0]) // MEGABYTE} MB of the GPU, {after[1] - before[1]} descriptors"
    if before[0] - after[0] > 8 * MEGABYTE or after[1] > before[1]:
        raise AssertionError(f"left behind: {text}")
    return f"nothing left behind ({text}; at most {resident} MB resident)"


# The names are those of rows in docs/gpu.md.
CHECKS: dict[str, Callable[[], str]] = {
    "finding the driver": driver,
    "torch": framework,
    "bits, a job of one": bits_alone,
    "bits, one machine": bits_of_two,
    "bits, servers": bits_with_servers,
    "torch, ways of training": ways_of_torch,
    "numpy and CuPy": arrays,
    "JAX": programs_of_jax,
    "captures": capture,
    "rates": rates,
    "ends": leaks,
}


def run(name: str, check: Callable[[], str]) -> Outcome:
    """Make a check, and print its line."""
    begun = time.monotonic()
    passed: bool | None
    try:
        passed, text = True, check()
    except NoGpuError:
        raise
    except NotHereError as error:
        passed, text = None, str(error)
    except Exception as error:  # whatever it is, the other checks follow
        passed, text = False, f"{type(error).__name__}: {error}"
    outcome = Outcome(name, passed, text, round(time.monotonic() - begun, 1))
    word = {True: "ok", False: "FAILED", None: "none"}[passed]
    print(f"{word:6} {name:23} {text} ({outcome.seconds} s)", flush=True)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=300)
    options = parser.parse_args()
    begun = time.monotonic()
    outcomes: list[Outcome] = []
    try:
        for name, check in CHECKS.items():
            if time.monotonic() - begun > options.seconds:
                outcomes.append(Outcome(name, False, "not run: the time is over", 0))
                continue
            outcomes.append(run(name, check))
    except NoGpuError as error:
        print(f"no GPU can be checked here: {error}")
        return NO_GPU
    print("\n| path | on a GPU |\n|---|---|")
    for one in outcomes:
        word = {True: "yes", False: "FAILED", None: "not run"}[one.passed]
        print(f"| {one.name} | {word}: {one.text} |")
    if options.json is not None:
        facts: dict[str, Any] = {"checks": [asdict(one) for one in outcomes]}
        facts |= {"machine": platform.platform(), "python": platform.python_version()}
        options.json.write_text(json.dumps(facts))
    return 1 if any(one.passed is False for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
