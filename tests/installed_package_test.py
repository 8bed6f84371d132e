"""Installs the library to a temporary prefix, moves it, and builds the examples against it.

Usage: installed_package_test.py CMAKE BUILD SOURCE CXX VERSION

With find_package both examples, with pkg-config the C++ one; each must run alone as rank 0 of 1.
The prefix is moved first, so that nothing may depend on where it was or on the build folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

GREETING = "rank 0 of 1: sum 1"


def run(*command: str | Path, **environment: str) -> str:
    """Return what the command prints; fail with all of it if the command fails."""
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}failed: {done.returncode}")
    return done.stdout


def expect(text: str, output: str) -> None:
    if text not in output:
        sys.exit(f"expected {text!r}, got {output!r}")


def libraries(prefix: Path) -> Path:
    """Return the folder of the library: lib, lib64 or lib/ARCHITECTURE."""
    found = sorted(prefix.glob("lib*/**/libbyteps.so"))
    if len(found) != 1:
        sys.exit(f"{len(found)} libraries are installed: {found}")
    return found[0].parent


def check_programs(prefix: Path, version: str) -> None:
    for name in ("bps-server", "bps-scheduler"):
        expect(f"{name} {version}", run(prefix / "bin" / name, "--version"))


def check_find_package(cmake: str, source: Path, prefix: Path, folder: Path, cxx: str) -> None:
    build = folder / "find_package"
    # The default generator needs make, which nothing else here does.
    settings = (f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={cxx}")
    run(cmake, "-S", source / "examples", "-B", build, "-G", "Ninja", *settings)
    run(cmake, "--build", build)
    for name in ("push_pull", "push_pull_c"):
        expect(GREETING, run(build / name))


def check_pkg_config(source: Path, prefix: Path, folder: Path, cxx: str, version: str) -> None:
    where = {"PKG_CONFIG_PATH": str(libraries(prefix) / "pkgconfig")}
    expect(version, run("pkg-config", "--modversion", "byteps", **where))
    flags = run("pkg-config", "--cflags", "--libs", "byteps", **where).split()
    program = folder / "with_pkg_config"
    run(cxx, "-std=c++20", source / "examples/cpp/push_pull.cc", "-o", program, *flags)
    expect(GREETING, run(program, LD_LIBRARY_PATH=str(libraries(prefix))))


def main(cmake: str, build: str, source: str, cxx: str, version: str) -> None:
    with tempfile.TemporaryDirectory(prefix="byteps-installed-") as name:
        folder = Path(name)
        run(cmake, "--install", build, "--prefix", folder / "first")
        prefix = (folder / "first").rename(folder / "moved")
        check_programs(prefix, version)
        check_find_package(cmake, Path(source), prefix, folder, cxx)
        check_pkg_config(Path(source), prefix, folder, cxx, version)


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
