"""Checks that libraries and programs were built with what makes mistakes harder to use.

Usage: hardening_test.py [--readelf READELF] FILE...

Of every file: relocations that become read-only, symbols that are bound at the start, a stack that
cannot be executed. Of a program: it can be loaded anywhere. Of the library, which has the code:
guarded stacks, checked copies and, on x86, marked targets of jumps.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ENDBR64 = bytes.fromhex("f30f1efa")
ENDBR32 = bytes.fromhex("f30f1efb")


class Elf:
    """What readelf says of a file."""

    def __init__(self, path: Path, readelf: str) -> None:
        self.path = path
        self.text = subprocess.run(
            [readelf, "--wide", "--file-header", "--segments", "--dynamic", "--dyn-syms", path],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        self.is_program = "FLAGS_1" in self.text and bool(re.search(r"FLAGS_1.*PIE", self.text))
        self.is_program |= bool(re.search(r"Type:\s+EXEC", self.text))
        self.is_x86 = bool(re.search(r"Machine:.*(X86-64|80386)", self.text))

    def imports(self, pattern: str) -> bool:
        """Whether a function of such a name is called that another library has."""
        return bool(re.search(rf"FUNC\s.*\sUND\s+{pattern}(@|\s|$)", self.text, re.MULTILINE))

    def reads_guard(self) -> bool:
        """Whether code on x86 reads the number that guards stacks, at %fs:0x28."""
        return re.search(rb"\x64\x48.[\x04-\x3c]\x25\x28\0\0\0", self.path.read_bytes()) is not None

    def code_at(self, function: str, size: int) -> bytes:
        """Return the first bytes of an exported function."""
        symbol = re.search(rf"^\s*\d+: ([0-9a-f]+).*\s{function}@", self.text, re.MULTILINE)
        if symbol is None:
            return b""
        address = int(symbol[1], 16)
        segments = re.findall(r"LOAD\s+0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", self.text)
        for offset, start, length in ((int(a, 16), int(b, 16), int(c, 16)) for a, b, c in segments):
            if start <= address < start + length:
                begin = offset + address - start
                return self.path.read_bytes()[begin : begin + size]
        return b""


def problems_of(elf: Elf) -> list[str]:
    """One sentence for each thing that is missing."""
    problems = []
    if "GNU_RELRO" not in elf.text:
        problems.append("it has no read-only relocations (-z relro)")
    if not re.search(r"\(FLAGS_1\).*\bNOW\b|\(BIND_NOW\)|\(FLAGS\).*BIND_NOW", elf.text):
        problems.append("its symbols are bound late (-z now)")
    stack = re.search(r"GNU_STACK(?:\s+0x\w+)+\s+([RWE ]+?)\s+0", elf.text)
    if stack is None or "E" in stack[1]:
        problems.append("its stack can be executed")
    if re.search(r"Type:\s+EXEC", elf.text):
        problems.append("it is no position-independent program (-pie)")
    if elf.is_program:
        return problems
    # The function that is called then may be linked in. On ARM nothing is to be seen of it then.
    if elf.is_x86 and not elf.imports("__stack_chk_fail") and not elf.reads_guard():
        problems.append("no stack is guarded (-fstack-protector-strong)")
    if not elf.imports(r"__\w+_chk"):
        problems.append("no copy is checked (-D_FORTIFY_SOURCE)")
    if elf.is_x86 and elf.code_at("byteps_version", 4) not in (ENDBR64, ENDBR32):
        problems.append("targets of jumps are not marked (-fcf-protection)")
    return problems


def main() -> int:
    """Print every problem; 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--readelf", default="readelf")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    found = [
        f"{path.name}: {problem}"
        for path in options.files
        for problem in problems_of(Elf(path, options.readelf))
    ]
    print("; ".join(found) or "all are hardened")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
