"""Checks that the shared library exports the functions of byteps.h and nothing else.

Usage: exported_symbols_test.py LIBRARY HEADER [NM]
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def declared_functions(header: str) -> set[str]:
    """Names of the functions that the header's text declares with BYTEPS_API."""
    without_comments = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    return set(re.findall(r"^BYTEPS_API\b[^;(]*?\b(\w+)\s*\(", without_comments, re.MULTILINE))


def exported_symbols(library: Path, nm: str) -> set[str]:
    """Names of all dynamic symbols that the library defines."""
    listing = subprocess.run(
        [nm, "--dynamic", "--defined-only", "--format=posix", str(library)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {line.split()[0] for line in listing.splitlines() if line.strip()}


def differences(declared: set[str], exported: set[str]) -> list[str]:
    """One sentence per symbol that is on one side only."""
    if not declared:
        return ["the header declares no function: is it the right file?"]
    problems = [
        f"{name} is exported but not declared in the header: give it hidden visibility"
        for name in sorted(exported - declared)
    ]
    problems += [
        f"{name} is declared in the header but not exported: define it in the library"
        for name in sorted(declared - exported)
    ]
    return problems


def main(arguments: list[str]) -> int:
    if len(arguments) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    library, header = Path(arguments[0]), Path(arguments[1])
    nm = arguments[2] if len(arguments) == 3 else "nm"
    declared = declared_functions(header.read_text(encoding="utf-8"))
    exported = exported_symbols(library, nm)
    problems = differences(declared, exported)
    for problem in problems:
        print(f"{library.name}: {problem}")
    print(f"{library.name}: {len(exported)} exported, {len(declared)} declared")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
