"""The examples do what they say, at a small size."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import job_runs
import pytest
import torch_jobs
from job_runs import expect_programs_end, program_of_page, warm_python
from processes import LIMIT_S

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SMALL = ("--num-warmup-batches", "1", "--num-batches-per-iter", "1", "--num-iters", "2")
SMALL_IMAGES = ("--batch-size", "2", "--image-size", "32", "--num-classes", "10")


def example(environment, name: str, *arguments: str, servers: int = 0) -> str:
    """Return what an example prints on two ranks."""
    counts = ["-np", "2", *(["--servers", str(servers)] if servers else [])]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "byteps.cli", "run", *counts),
            *(*warm_python(), str(EXAMPLES / name), *arguments),
        ],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def skip_without_sharding() -> None:
    """Skip the example of FSDP2 where torch has none. Asked by a test, because it imports torch."""
    from torch_features import NO_SHARDED, sharding

    if sharding() is None:
        pytest.skip(NO_SHARDED)


@pytest.mark.parametrize(
    ("name", "servers"),
    [
        pytest.param("torch_ddp.py", 0, marks=torch_jobs.needs_entry_points),
        pytest.param("torch_fsdp.py", 0, marks=torch_jobs.needs_torch),
        ("torch_cross_barrier.py", 2),
        ("torch_accumulation.py", 1),
    ],
)
def test_the_short_trainings_learn(environment, name, servers) -> None:
    if name == "torch_fsdp.py":
        skip_without_sharding()
    printed = example(environment, name, servers=servers)
    loss = re.search(r"loss (\d\.\d+) on 2 ranks", printed)
    assert loss is not None, printed
    # A model that always guesses zero has a loss of about 0.5.
    assert float(loss[1]) < 0.1
    kept = re.search(r"keeps (\d+) of (\d+)", printed)
    assert (kept is not None) == (name == "torch_fsdp.py")
    if kept is not None:
        assert int(kept[1]) < 0.6 * int(kept[2])


def test_the_programs_of_the_pages_learn(environment, tmp_path) -> None:
    pages = ("torch.md", "numpy.md")
    printed = expect_programs_end(environment, *(program_of_page(p, tmp_path) for p in pages))
    loss = re.search(r"^\[worker 0\] loss (\d\.\d+)$", printed, re.MULTILINE)
    hits = re.search(r"^\[worker 0\] (\d\.\d+) of the answers are right$", printed, re.MULTILINE)
    assert loss is not None, printed
    assert hits is not None, printed
    assert float(loss[1]) < 0.3, printed
    assert float(hits[1]) > 0.95, printed


def test_the_language_model_learns(environment) -> None:
    options = ("--steps", "60", "--batch-size", "8", "--width", "32", "--layers", "1")
    printed = example(environment, "torch_language_model.py", *options)
    bits = [float(text) for text in re.findall(r"step \d+: (\d+\.\d+) bits", printed)]
    # All characters equally likely: 6.6 bits.
    assert len(bits) == 5
    assert bits[-1] < min(bits[0], 5.0)


def test_the_benchmark_prints_the_lines_of_the_original(environment) -> None:
    arguments = ("--model", "resnet50", "--no-cuda", "--fp16-pushpull", *SMALL, *SMALL_IMAGES)
    lines = example(environment, "torch_synthetic.py", *arguments, servers=1).splitlines()
    texts = [line.removeprefix("[worker 0] ") for line in lines]
    expected = [
        r"Model: resnet50",
        r"Batch size: 2",
        r"Number of CPUs: 2",
        r"Running warmup\.\.\.",
        r"Running benchmark\.\.\.",
        r"Iter #0: \d+\.\d img/sec per CPU",
        r"Iter #1: \d+\.\d img/sec per CPU",
        r"Img/sec per CPU: \d+\.\d \+-\d+\.\d",
        r"Total img/sec on 2 CPU\(s\): \d+\.\d \+-\d+\.\d",
    ]
    assert len(texts) == len(expected), texts
    for text, pattern in zip(texts, expected, strict=True):
        assert re.fullmatch(pattern, text), text


def test_the_models_have_the_sizes_of_their_papers() -> None:
    script = (
        "import torch; from vision_models import MODELS\n"
        "with torch.device('meta'):\n"
        "    models = {name: make() for name, make in MODELS.items()}\n"
        "    sizes = {n: sum(p.numel() for p in m.parameters()) for n, m in models.items()}\n"
        "assert sizes == {'resnet50': 25_557_032, 'vgg16': 138_357_544}, sizes\n"
        "assert len(list(models['resnet50'].parameters())) == 161\n"
        "assert models['vgg16'](torch.empty(1, 3, 224, 224, device='meta')).shape == (1, 1000)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
