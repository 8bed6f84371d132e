"""What ./dev installs, and how it tells that something is already there (tools/dev/setup.sh)."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from repo import ROOT, files

SETUP = f"set -euo pipefail; source {ROOT}/tools/dev/ui.sh; source {ROOT}/tools/dev/setup.sh; "
OWN_VENV = str(Path(sys.executable).parent.parent)
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def shell(script: str, place: Path, **variables: str) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "DEV_", "GIT_"))}
    result = subprocess.run(
        ["bash", "-c", SETUP + script],
        cwd=place,
        env={**kept, "PIP_CONFIG_FILE": os.devnull, **variables},
        check=True,
        capture_output=True,
        text=True,
    )
    return result.stdout.strip()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"PIP_PROXY": "http://proxy:3128"}, CPU_INDEX),
        ({"PIP_INDEX_URL": "https://mirror/simple"}, ""),
        ({"PIP_FIND_LINKS": "/wheels"}, ""),
        ({"PIP_FIND_LINKS": "/wheels", "DEV_TORCH_INDEX": "https://other"}, "https://other"),
    ],
)
def test_torch_is_a_cpu_build_unless_somebody_chose(
    tmp_path: Path, variables: dict[str, str], expected: str
) -> None:
    assert shell("torch_index", tmp_path, VENV=OWN_VENV, **variables) == expected


def test_a_virtual_environment_without_a_whole_pip_is_made_again(tmp_path: Path) -> None:
    place, calls = tmp_path / "venv", tmp_path / "calls"
    make = {"VENV": str(place), "DEV_PYTHON": str(tmp_path / "python")}
    (tmp_path / "python").write_text(f'#!/bin/sh\necho "$*" >> {calls}\n')
    (tmp_path / "python").chmod(0o755)

    def made() -> list[str]:
        shell("make_venv", tmp_path, **make)
        return calls.read_text().splitlines() if calls.exists() else []

    assert made() == [f"-m venv {place}"]
    venv.create(place, with_pip=False, symlinks=True)
    (packages,) = place.glob("lib/python3*/site-packages")
    (packages / "pip").mkdir()
    (packages / "pip-23.dist-info").mkdir()
    (packages / "pip-23.dist-info" / "METADATA").write_text("Name: pip\nVersion: 23\n")
    assert len(made()) == 2
    assert list(packages.glob("pip*")) == []
    (packages / "pip-23.dist-info").mkdir()
    (packages / "pip-23.dist-info" / "INSTALLER").write_text("pip\n")
    assert len(made()) == 2


SOURCES = ("pyproject.toml", "CMakeLists.txt", "cmake/a", "include/a", "src/a", "apps/a", "docs/a")


@pytest.mark.parametrize("with_git", [False, True])
def test_the_key_of_the_wheel_follows_its_files(tmp_path: Path, with_git: bool) -> None:
    for name in (*SOURCES, "python/a"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    if with_git:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    key = shell("wheel_key", tmp_path)
    assert shell("wheel_key", tmp_path) == key
    (tmp_path / "src" / "a").write_text("other")
    assert shell("wheel_key", tmp_path) != key


def test_files_that_git_cannot_list_have_no_key(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(subprocess.CalledProcessError) as caught:
        shell("ensure_wheel", tmp_path, VENV=OWN_VENV)
    assert "not a git repository" in caught.value.stderr
    assert "cannot be listed" in caught.value.stderr
    with pytest.raises(SystemExit, match="not a git repository"):
        files(tmp_path)


def test_an_unpacked_archive_has_the_files_that_git_would_list(tmp_path: Path) -> None:
    ours = (".gitignore", ".ci/run", "src/a.cc", "python/build.py")
    others = (
        "build/a.o",
        "build-old/a.o",
        "src/__pycache__/a.pyc",
        ".venv/b",
        "a/b.so",
        ".cache/b",
    )
    for name in (*ours, *others, ".mypy_cache/b"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    (tmp_path / ".mypy_cache" / ".gitignore").write_text("*\n")
    without_git = files(tmp_path)
    assert without_git == sorted(ours)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert files(tmp_path) == without_git


def test_an_unpacked_program_is_started_with_what_was_unpacked(tmp_path: Path) -> None:
    root, bin_folder = tmp_path / "engines" / "root", tmp_path / "engines" / "bin"
    libraries = root / "usr" / "lib" / "x86_64-linux-gnu"
    for folder in (bin_folder, libraries / "pmix2", root / "usr" / "bin", root / "usr" / "sbin"):
        folder.mkdir(parents=True)
    program = root / "usr" / "bin" / "mpirun.openmpi"
    program.write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH|$OPAL_PREFIX|$PMIX_INSTALL_PREFIX|$1"\n')
    program.chmod(0o755)
    shell(
        f"BUILD={tmp_path}; source {ROOT}/tools/dev/unpack.sh;"
        f" source {ROOT}/tools/dev/engines.sh; cd {root}; wrap_all",
        tmp_path,
        VENV=str(tmp_path / "venv"),
    )
    assert [p.name for p in bin_folder.iterdir()] == ["mpirun"]  # the machine has the others
    done = subprocess.run(
        [str(bin_folder / "mpirun"), "two words"],
        env={"LD_LIBRARY_PATH": "/before"},
        check=True,
        capture_output=True,
        text=True,
    )
    where, prefix, pmix, argument = done.stdout.rstrip("\n").split("|")
    assert str(libraries) in where.split(":")
    assert where.endswith(":/before")
    assert (prefix, pmix) == (str(root / "usr"), str(libraries / "pmix2"))
    assert argument == "two words"
    assert "sshd:" in (tmp_path / "engines" / "passwd").read_text()


def test_two_at_the_same_step_do_it_once(tmp_path: Path) -> None:
    step = "once stamp key thing log bash -c 'sleep 0.2; echo made >>made'"
    written = shell(f"{step} & {step} & wait; cat stamp", tmp_path, LOGS=str(tmp_path))
    assert (tmp_path / "made").read_text() == "made\n"
    assert "thing: in the making, waiting" in written
    assert "thing: up to date" in written
    assert written.endswith("key")


def test_what_failed_is_tried_again_by_the_next(tmp_path: Path) -> None:
    step = "once stamp key thing log bash -c 'echo tried >>tried; false'"
    shell(f"{step} || {step} || true", tmp_path, LOGS=str(tmp_path))
    assert (tmp_path / "tried").read_text() == "tried\n" * 2
    assert not (tmp_path / "stamp").exists()
