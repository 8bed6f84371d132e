"""Checks that the shared library exports the functions of the C headers and nothing else.

Each carries the number of the interface, so that a library with another number is not taken for it.

Usage: exported_symbols_test.py LIBRARY FOLDER [NM]

FOLDER has the headers.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def declared_functions(header: str) -> set[str]:
    """Names of the functions that the headers' text declares with BYTEPS_API."""
    without_comments = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    return set(re.findall(r"^BYTEPS_API\b[^;(]*?\b(\w+)\s*\(", without_comments, re.MULTILINE))


def interface_version(header: str) -> str:
    """The version that the header's interface number gives to symbols."""
    number = re.search(r"^#define BYTEPS_INTERFACE (\d+)$", header, re.MULTILINE)
    return f"BYTEPS_{number[1]}" if number else ""


def exported_symbols(library: Path, nm: str) -> dict[str, str]:
    """All dynamic symbols that the library defines, and their versions."""
    options = ("--dynamic", "--defined-only", "--with-symbol-versions", "--format=posix")
    listing = subprocess.run(
        [nm, *options, str(library)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    symbols = {}
    for line in filter(str.strip, listing.splitlines()):
        name, _, version = line.split()[0].partition("@@")
        symbols[name] = version
    return symbols


def differences(declared: set[str], symbols: dict[str, str], version: str) -> list[str]:
    """One sentence per symbol that is on one side only, or of another version."""
    if not declared or not version:
        return ["the headers declare no function, or no BYTEPS_INTERFACE: is it the right folder?"]
    # The version is a symbol of its own.
    exported = {name for name in symbols if name != version}
    problems = [
        f"{name} has the version '{symbols[name]}' and not {version}: see src/session/byteps.map"
        for name in sorted(declared & exported)
        if symbols[name] != version
    ]
    problems += [
        f"{name} is exported but not declared in a header: give it hidden visibility"
        for name in sorted(exported - declared)
    ]
    problems += [
        f"{name} is declared in a header but not exported: define it in the library"
        for name in sorted(declared - exported)
    ]
    return problems


def main(arguments: list[str]) -> int:
    if len(arguments) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    library, folder = Path(arguments[0]), Path(arguments[1])
    nm = arguments[2] if len(arguments) == 3 else "nm"
    text = "".join(header.read_text(encoding="utf-8") for header in folder.glob("*.h"))
    declared = declared_functions(text)
    symbols = exported_symbols(library, nm)
    problems = differences(declared, symbols, interface_version(text))
    for problem in problems:
        print(f"{library.name}: {problem}")
    print(f"{library.name}: {len(symbols)} exported, {len(declared)} declared")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
