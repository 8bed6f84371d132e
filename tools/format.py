"""Formatting of C++ (clang-format-19) and Python (ruff): checks, or rewrites with --write."""

import argparse
import subprocess
import sys
from pathlib import Path

from repo import ROOT, files, is_cxx

CLANG_FORMAT = "clang-format-19"


def ruff() -> str:
    return str(Path(sys.executable).parent / "ruff")


def commands(root: Path, write: bool) -> list[list[str]]:
    sources = [p for p in files(root) if is_cxx(p)]
    python = [p for p in files(root) if p.endswith((".py", ".pyi"))]
    found = []
    if sources:
        mode = ["-i"] if write else ["--dry-run", "-Werror", "--ferror-limit=1"]
        found.append([CLANG_FORMAT, *mode, *sources])
    if python:
        found.append([ruff(), "format", "-q", *([] if write else ["--check", "--diff"]), *python])
        if write:
            found.append([ruff(), "check", "-q", "--fix", "--exit-zero", *python])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    failed = False
    for command in commands(ROOT, args.write):
        failed |= subprocess.run(command, cwd=ROOT, check=False).returncode != 0
    if failed and not args.write:
        print("format: run ./dev format")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
