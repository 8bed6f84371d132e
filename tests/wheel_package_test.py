"""Installs a wheel into a new environment and builds the examples against it, and against the
archive of the servers, in folders outside of the checkout.

Usage: wheel_package_test.py WHEEL ARCHIVE CMAKE CXX

With find_package both examples, with pkg-config and with the flags of `bps config` the C++ one, and
the program of docs/cpp.md by its own command.
Each must run alone as rank 0 of 1, and two as a job of `bps run`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from installed_package_test import GREETING, expect, run

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PAGE = EXAMPLES.parent / "docs/cpp.md"


def build_with_cmake(cmake: str, package: str, folder: Path, cxx: str) -> Path:
    """Return the folder of the programs."""
    build = folder / "build"
    settings = (f"-Dbyteps_DIR={package}", f"-DCMAKE_CXX_COMPILER={cxx}")
    run(cmake, "-S", folder / "examples", "-B", build, "-G", "Ninja", *settings)
    run(cmake, "--build", build)
    for name in ("push_pull", "push_pull_c"):
        expect(GREETING, run(build / name))
    return build


def build_with_flags(name: str, flags: str, folder: Path, cxx: str) -> None:
    source = folder / "examples/cpp/push_pull.cc"
    run(cxx, "-std=c++20", source, "-o", folder / name, *flags.split())
    expect(GREETING, run(folder / name))


def pkg_config(package: str) -> str:
    return run("pkg-config", "--cflags", "--libs", "byteps", PKG_CONFIG_PATH=package)


def check_page(bps: Path, cxx: str, folder: Path) -> None:
    """Build the program of the page, and run it as a job."""
    _, program, rest = PAGE.read_text().split("```", 2)
    (folder / "fit.cc").write_text(program.removeprefix("cpp\n"))
    command = next(line for line in rest.splitlines() if line.startswith("g++ "))
    flags = run(bps, "config", "--includes", "--libs").strip()
    words = command.replace("$(bps config --includes --libs)", flags).split()
    files = {"fit.cc": str(folder / "fit.cc"), "fit": str(folder / "fit")}
    run(cxx, *(files.get(word, word) for word in words[1:]))
    expect("rank 1 of 2: last weight 7.000", run(bps, "run", "-np", "2", folder / "fit"))


def copy_examples(folder: Path) -> Path:
    shutil.copytree(EXAMPLES, folder / "examples")
    return folder


def check_wheel(wheel: str, cmake: str, cxx: str, folder: Path) -> None:
    run(sys.executable, "-m", "venv", folder / "venv")
    run(folder / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    bps = folder / "venv/bin/bps"
    build = build_with_cmake(cmake, run(bps, "config", "--cmakedir").strip(), folder, cxx)
    build_with_flags(
        "by_pkg_config", pkg_config(run(bps, "config", "--pkgconfigdir").strip()), folder, cxx
    )
    build_with_flags("by_flags", run(bps, "config", "--includes", "--libs"), folder, cxx)
    expect("rank 1 of 2: sum 3", run(bps, "run", "-np", "2", build / "push_pull"))
    check_page(bps, cxx, folder)


def check_archive(archive: str, cmake: str, cxx: str, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (share,) = folder.glob("byteps-servers-*/lib/byteps/share")
    build_with_cmake(cmake, f"{share}/cmake/byteps", folder, cxx)
    build_with_flags("by_pkg_config", pkg_config(f"{share}/pkgconfig"), folder, cxx)


def main(wheel: str, archive: str, cmake: str, cxx: str) -> None:
    with tempfile.TemporaryDirectory(prefix="byteps-wheel-") as name:
        # No checkout in the working directory may be what is imported.
        places = [Path(name) / place for place in ("wheel", "archive")]
        wheel, archive = (str(Path(file).resolve()) for file in (wheel, archive))
        for place in places:
            place.mkdir()
            copy_examples(place)
        os.chdir(name)
        check_wheel(wheel, cmake, cxx, places[0])
        check_archive(archive, cmake, cxx, places[1])


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
