"""What `bps doctor` says of an installation whose files are gone or belong to another package."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import LIMIT_S

from byteps.cli.doctor import installation

FILES = {"byteps/__init__.py": b"", "byteps/torch/ops.py": b"x = 1\n", "../bin/bps": b"#!"}


def install(site: Path, name: str, files: dict[str, bytes], record: str = "RECORD") -> None:
    """Write the files and the list of them that an installer leaves."""
    lines = []
    for file, data in files.items():
        path = site / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        lines.append(f"{file},sha256={digest},{len(data)}")
    folder = site / f"{name.replace('-', '_')}-1.0.{'dist' if record == 'RECORD' else 'egg'}-info"
    folder.mkdir()
    lines.append(f"{folder.name}/{record},,")
    if record != "RECORD":
        lines = [f"../{file}" for file in files]
    (folder / record).write_text("\n".join(lines) + "\n")
    named = "METADATA" if record == "RECORD" else "PKG-INFO"
    (folder / named).write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")


@pytest.fixture
def site(tmp_path, monkeypatch) -> Path:
    """Return a folder that is the only one where distributions are looked for."""
    place = tmp_path / "site-packages"
    place.mkdir()
    monkeypatch.setattr(sys, "path", [str(place)])
    return place


def test_a_whole_installation_and_none_have_no_problem(site) -> None:
    assert installation.problems() == []
    install(site, "byteps-cpp", FILES)
    install(site, "other", {"byteps_of_others/x.py": b""})
    (site / "../bin/bps").unlink()  # pip has rewritten it
    assert installation.problems() == []


def test_files_that_are_gone_or_changed_are_named(site) -> None:
    many = {f"byteps/file{n}.py": b"" for n in range(5)}
    install(site, "byteps-cpp", {**FILES, **many})
    (site / "byteps/__init__.py").unlink()
    (text,) = installation.problems()
    assert text.startswith("files of byteps-cpp are gone: byteps/__init__.py: pip uninstall ")
    (site / "byteps/torch/ops.py").write_text("x = 2\n")
    for name in many:
        (site / name).unlink()
    gone, changed = installation.problems()
    assert "byteps/__init__.py, byteps/file0.py, byteps/file1.py and 3 more: " in gone
    assert "not those that pip has installed: byteps/torch/ops.py: " in changed


@pytest.mark.parametrize("record", ["RECORD", "installed-files.txt"])
def test_another_owner_of_the_same_files_is_named(site, record) -> None:
    install(site, "byteps-cpp", FILES)
    install(site, "byteps", {"byteps/torch/ops.py": b"x = 1\n"}, record)
    (text,) = installation.problems()
    assert text.startswith("the distribution 'byteps' in this environment owns files ")
    assert "pip uninstall byteps, " in text


def test_the_doctor_says_so(tmp_path) -> None:
    install(tmp_path, "byteps-cpp", FILES)
    (tmp_path / "byteps/__init__.py").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "byteps.cli", "doctor"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "problem: files of byteps-cpp are gone: byteps/__init__.py" in done.stdout
