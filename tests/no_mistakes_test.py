"""Checks that the shared library contains no deliberate mistake, and that the check can find one.

Deliberate mistakes are classes in files named *mistakes_for_test.*: tests and the simulator link
them to show that they notice them. A class with virtual functions leaves its name, in front of it
the length, in the symbol table and, also when that is stripped, among the strings of a program.

Usage: no_mistakes_test.py LIBRARY SIMULATOR SOURCES
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

DERIVED = re.compile(r"^class (\w+)(?: final)? : public ", re.MULTILINE)


def mistakes(sources: Path) -> dict[str, list[str]]:
    """The classes of each file of mistakes."""
    files = sorted(sources.glob("**/*mistakes_for_test.*"))
    return {str(file): DERIVED.findall(file.read_text(encoding="utf-8")) for file in files}


def contained(names: list[str], program: bytes) -> list[str]:
    """Those of the classes that the program contains."""
    return [name for name in names if f"{len(name)}{name}".encode() in program]


def problems(rooms: dict[str, list[str]], library: bytes, simulator: bytes) -> list[str]:
    """One sentence for each thing that is wrong."""
    found = [
        f"the library contains {name} of {file}: link it to tests and to the simulator only"
        for file, names in rooms.items()
        for name in contained(names, library)
    ]
    found += [
        f"the simulator contains no mistake of {file}: none would be found in the library either"
        for file, names in rooms.items()
        if names and not contained(names, simulator)
    ]
    if not any(rooms.values()):
        found.append("there are no mistakes to look for: is this the right folder?")
    return found


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    library, simulator = (Path(argument).read_bytes() for argument in arguments[:2])
    rooms = mistakes(Path(arguments[2]))
    found = problems(rooms, library, simulator)
    for problem in found:
        print(problem)
    for file, names in rooms.items():
        print(f"{file}: {len(contained(names, simulator))} of {len(names)} in the simulator")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
