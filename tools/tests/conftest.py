"""Checkers are tested on small repositories that are made for each test."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

MakeRepo = Callable[[dict[str, str]], Path]


@pytest.fixture
def make_repo(tmp_path: Path) -> MakeRepo:
    """A git repository with the given files."""

    def make(contents: dict[str, str]) -> Path:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
        for name, text in contents.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make
