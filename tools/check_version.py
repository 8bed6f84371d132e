"""The version of the project stands in CMakeLists.txt. The header, which programs compile, and the
newest entry of CHANGELOG.md say the same."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from repo import ROOT, Finding, line_of, read, report

PLACE = "CMakeLists.txt"
HEADER = "include/byteps/byteps.h"
CHANGES = "CHANGELOG.md"
PROJECT = re.compile(r"^project\(byteps VERSION (\d+\.\d+\.\d+)", re.MULTILINE)
MACRO = re.compile(r"^#define BYTEPS_VERSION_(MAJOR|MINOR|PATCH) (\d+)$", re.MULTILINE)
ENTRY = re.compile(r"^## (\d+\.\d+\.\d+)\b", re.MULTILINE)


def project_version(root: Path) -> str:
    found = PROJECT.search(read(PLACE, root))
    if found is None:
        raise ValueError(f"{PLACE} has no line 'project(byteps VERSION ...)'")
    return found[1]


def check(root: Path = ROOT) -> Iterator[Finding]:
    version = project_version(root)
    header = read(HEADER, root)
    parts = dict(MACRO.findall(header))
    said = ".".join(parts.get(part, "?") for part in ("MAJOR", "MINOR", "PATCH"))
    if said != version:
        place = MACRO.search(header)
        line = line_of(header, place.start()) if place else 1
        yield Finding(HEADER, line, f"the version is {said}, and {PLACE} says {version}")
    changes = read(CHANGES, root)
    entry = ENTRY.search(changes)
    if entry is None or entry[1] != version:
        line = line_of(changes, entry.start()) if entry else 1
        yield Finding(CHANGES, line, f"its newest entry must be '## {version}', as {PLACE} says")


if __name__ == "__main__":
    sys.exit(report("version", check()))
