"""Options do what their page says: each field of Options is read by the library or a program, or
its variable by the Python package, and so is each variable that the page calls the launcher's."""

import re
import sys
from collections.abc import Iterator, Set
from pathlib import Path

from repo import ROOT, Finding, code_only, files, is_cxx, line_of, read, report

HEADER = "src/config/options.h"
ACCESSORS = "src/config/options.cc"
ROWS = "src/config/option_rows.cc"
OTHERS = "src/config/other_variables.cc"

STRUCT = re.compile(r"^struct Options \{.*?^\};", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^  [\w:<>]+ (\w+)(?: = [^;\n]+)?;", re.MULTILINE)
ACCESSOR = re.compile(
    r"^[\w:<>]+ (\w+)\(const Options& options\) \{.*?^\}", re.MULTILINE | re.DOTALL
)
ROW = re.compile(r'\.name = "(\w+)",\s*\.variable = "(\w+)"')
LAUNCHER = re.compile(r'^    \{"(\w+)", kLauncher,', re.MULTILINE)
# On the field's line, with the reason.
ALLOW = re.compile(r"tidy-allow\(unread-option\): \S")


def readers(paths: list[str], root: Path) -> str:
    """All code that options are made for: what reads them, and not what fills them in."""
    return "\n".join(
        code_only(read(path, root))
        for path in paths
        if is_cxx(path)
        and path.startswith(("src/", "apps/"))
        and not path.startswith("src/config/")
        and not re.search(r"_(test|fuzz)\.cc$", path)
    )


def called_accessors(accessors: str, code: str) -> str:
    """The functions of an Options that `code` calls."""
    bodies = ACCESSOR.finditer(accessors)
    return "\n".join(body[0] for body in bodies if re.search(rf"\b{body[1]}\(", code))


def read_in_python(rows: str, python: str) -> set[str]:
    """The options whose variables the Python package names."""
    named = set(re.findall(r"\b(?:BYTEPS|DMLC)_\w+", python))
    return {row[1] for row in ROW.finditer(rows) if row[2] in named}


def check_fields(
    header: str, accessors: str, code: str, python: Set[str] = frozenset()
) -> Iterator[Finding]:
    """`python`: the options that the Python package reads."""
    struct = STRUCT.search(header)
    if not struct:
        yield Finding(HEADER, 1, "no struct Options: tools/check_options.py reads its fields")
        return
    read_code = code + called_accessors(accessors, code)
    lines = header.splitlines()
    for field in FIELD.finditer(struct[0]):
        line = line_of(header, struct.start() + field.start())
        if ALLOW.search(lines[line - 1]) or re.search(rf"[.>]{field[1]}\b", read_code):
            continue
        if field[1] in python:
            continue
        text = f"nothing outside src/config reads '{field[1]}': use it, or say in {OTHERS} "
        yield Finding(HEADER, line, text + "that its variable has no effect")


def check_launcher(others: str, python: str) -> Iterator[Finding]:
    for row in LAUNCHER.finditer(others):
        if not re.search(rf"\b{row[1]}\b", python):
            text = f"{row[1]} is called the launcher's, but nothing in python/ names it"
            yield Finding(OTHERS, line_of(others, row.start()), text)


def check(root: Path = ROOT) -> Iterator[Finding]:
    paths = files(root)
    accessors = code_only(read(ACCESSORS, root))
    sources = [p for p in paths if p.startswith("python/") and p.endswith(".py")]
    python = "\n".join(read(p, root) for p in sources)
    yield from check_fields(read(HEADER, root), accessors, readers(paths, root),
                            read_in_python(read(ROWS, root), python))  # fmt: skip
    yield from check_launcher(read(OTHERS, root), python)


if __name__ == "__main__":
    sys.exit(report("options", check()))
