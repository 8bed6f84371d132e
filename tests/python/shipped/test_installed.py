"""The installed package: one library for all modules, and no framework that it insists on."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch_jobs
from processes import LIMIT_S

pytestmark = torch_jobs.needs_torch

FRAMEWORKS = ("torch", "jax", "tensorflow", "keras", "mxnet", "numpy")
LOADED = """
import json
import byteps._core, byteps.numpy, byteps.torch
maps = open("/proc/self/maps").read().splitlines()
print(json.dumps(sorted({line.split()[-1] for line in maps if "libbyteps" in line})))
"""
PROGRAMS = """
import json
from byteps.common.job.executables import PROGRAM_BY_ROLE, find_program
print(json.dumps([str(find_program(role)) for role in PROGRAM_BY_ROLE]))
"""


PAGES = "import json; from byteps.cli import pages; print(json.dumps(list(pages.names())))"


def answer(script: str) -> list[str]:
    """Return what a script prints that sees the installed package, and not this checkout."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_all_modules_share_one_library() -> None:
    (library,) = answer(LOADED)
    assert library.endswith("byteps/libbyteps.so")


def test_no_framework_is_required() -> None:
    try:
        requirements = metadata.requires("byteps-cpp") or []
    except metadata.PackageNotFoundError:
        pytest.skip("byteps runs from a folder, without the metadata of an installed package")
    needed = [text for text in requirements if "extra ==" not in text]
    assert needed
    assert not [text for text in needed if text.startswith(FRAMEWORKS)], needed


def test_the_programs_use_the_same_library() -> None:
    programs = answer(PROGRAMS)
    assert len(programs) == 2
    for program in programs:
        listing = subprocess.run(
            ["ldd", program], capture_output=True, text=True, timeout=LIMIT_S, check=True
        ).stdout
        assert "libbyteps.so => " in listing, listing
        assert "not found" not in listing, listing
        assert "libpython" not in listing, listing


def test_every_page_travels_with_the_package() -> None:
    repository = Path(__file__).resolve().parents[3]
    pages = {path.stem for path in (repository / "docs").glob("*.md")}
    assert set(answer(PAGES)) == pages | {"README"}
    readme = "import json; from byteps.cli import pages; print(json.dumps([pages.page('README')]))"
    assert answer(readme) == [(repository / "README.md").read_text()]
