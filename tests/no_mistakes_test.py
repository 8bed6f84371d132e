"""Checks that the shared library contains no deliberate mistake, and that the check can find one.

Deliberate mistakes are classes whose names end in "Mistake": tests and the simulator link them to
show that they notice them. A class with virtual functions leaves its name in the symbol table and,
also when that is stripped, among the strings of the program.

Usage: no_mistakes_test.py LIBRARY SIMULATOR
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# One line for each room that has mistakes: a part of the name of one of its classes, by which it
# is seen that the check would find that room's mistakes in the library.
KNOWN = (
    "NoFenceMistake",  # src/protocol/shard
)
# Rooms whose mistakes are still switches in the library. TODO(mistakes): none is left.
SWITCHES = {"CoordinatorMistake", "MembershipMistake", "WorkerMistake"}
MISTAKE = re.compile(rb"(?:[A-Z][a-z]*)+Mistake(?![a-z])")


def mistakes(program: Path) -> set[str]:
    """Names of mistakes in the program's symbols and strings."""
    found = {name.decode() for name in MISTAKE.findall(program.read_bytes())}
    return found - SWITCHES


def problems(library: set[str], simulator: set[str]) -> list[str]:
    """One sentence for each thing that is wrong."""
    found = [
        f"the library contains {name}: link it to tests and to the simulator only"
        for name in sorted(library)
    ]
    found += [
        f"the simulator does not contain {name}: the check would not find it in the library"
        for name in KNOWN
        if name not in simulator
    ]
    return found


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    library, simulator = (mistakes(Path(argument)) for argument in arguments)
    for problem in (found := problems(library, simulator)):
        print(problem)
    print(f"{len(library)} in the library, {len(simulator)} in the simulator")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
