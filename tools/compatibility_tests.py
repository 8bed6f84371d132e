"""Which test shows which promise of docs/compatibility.md: reads tools/compatibility_tests.txt and
prints the page docs/compatibility-tests.md."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from repo import ROOT, read

PROMISES = "docs/compatibility.md"
PAGE = "docs/compatibility-tests.md"
LIST = "tools/compatibility_tests.txt"
TESTS = "tests/python"
ROW = re.compile(r"^\| (?P<name>[^|]+) \| (?P<state>[^|]+) \|(?P<note>[^|]*)\|$")
HEADING = re.compile(r"^## (?P<text>.+)$")

INTRODUCTION = f"""# The tests behind compatibility.md

<!-- Generated from {LIST}; do not edit.
`python3 tools/compatibility_tests.py > {PAGE}` writes it. -->

[compatibility.md](compatibility.md) promises what programs for the original BytePS and for Horovod
find here. This page names the test that shows each promise. `./dev lint names` fails if a row that
works has no test, or if a test in this list does not exist.

Tests in `tests/python` start the programs in `tests/python/jobs` as jobs of real processes.
`./dev lane matrix` runs these jobs with one to four workers and one to three servers.
"""


@dataclass(frozen=True)
class Row:
    """A row of the page of promises. `section` is the heading above it."""

    line: int
    section: str
    name: str
    state: str
    note: str


@dataclass(frozen=True)
class Shown:
    """A line of the list: `test` shows the promise `name`, or the part of it that `part` says."""

    line: int
    name: str
    test: str
    part: str = ""


def rows(page: str) -> Iterator[Row]:
    """The rows of all tables of the page, without their heads."""
    section = ""
    for number, line in enumerate(page.splitlines(), 1):
        if heading := HEADING.match(line):
            section = heading["text"]
        row = ROW.match(line)
        if row is None or set(row["name"]) <= {"-"} or not row["state"].strip():
            continue
        yield Row(number, section, row["name"].strip(), row["state"].strip(), row["note"].strip())


def shown(text: str) -> Iterator[Shown]:
    """The lines of the list that name a test."""
    name = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            name = line.strip()
            continue
        test, _, part = line.strip().partition(": ")
        yield Shown(number, name, test, part)


def functions(root: Path) -> dict[str, str]:
    """The functions of all tests, as module.function, with the path of their file."""
    found = {}
    for path in (root / TESTS).rglob("*.py"):
        for name in re.findall(r"^def (\w+)\(", path.read_text(), re.MULTILINE):
            found[f"{path.stem}.{name}"] = path.relative_to(root).as_posix()
    return found


def page_of(promises: str, tests: str, paths: dict[str, str]) -> str:
    """The page: for each row with tests, a line for each of them."""
    by_name: dict[str, list[Shown]] = {}
    for one in shown(tests):
        by_name.setdefault(one.name, []).append(one)
    text, section = INTRODUCTION, ""
    for row in rows(promises):
        if row.section != section and row.name in by_name:
            section = row.section
            text += f"\n## {section}\n\n| promise | part | test |\n|---|---|---|\n"
        for one in by_name.get(row.name, []):
            path = paths.get(one.test, "")
            text += f"| {row.name} | {one.part} | [`{one.test}`](../{path}) |\n"
    return text


def main() -> int:
    print(page_of(read(PROMISES), read(LIST), functions(ROOT)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
