"""Counts passed and failed tests in the logs of one lane.

Knows the last lines of GoogleTest, pytest and tools/lint.py. Prints "PASSED FAILED". A lane that
counts no tests of its own counts as one; a failed lane counts at least one failure.
"""

import argparse
import re
from pathlib import Path

GTEST_PASSED = re.compile(r"\[  PASSED  \] (\d+) tests?\b")
GTEST_FAILED = re.compile(r"\[  FAILED  \] (\d+) tests?, listed below")
SUMMARY = re.compile(r"^(?:=+ |lint: ).*?\b(?:passed|failed|error)", re.MULTILINE)
PYTEST_PASSED = re.compile(r"(\d+) passed")
PYTEST_FAILED = re.compile(r"(\d+) (?:failed|errors?)")


def count(text: str) -> tuple[int, int]:
    passed = sum(int(n) for n in GTEST_PASSED.findall(text))
    failed = sum(int(n) for n in GTEST_FAILED.findall(text))
    for line in text.splitlines():
        if SUMMARY.match(line):
            passed += sum(int(n) for n in PYTEST_PASSED.findall(line))
            failed += sum(int(n) for n in PYTEST_FAILED.findall(line))
    return passed, failed


def count_lane(texts: list[str], status: int) -> tuple[int, int]:
    counts = [count(text) for text in texts]
    passed = sum(c[0] for c in counts)
    failed = sum(c[1] for c in counts)
    if status != 0:
        failed = max(failed, 1)
    elif passed + failed == 0:
        passed = 1
    return passed, failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--status", type=int, default=0, help="the lane's exit status")
    parser.add_argument("logs", nargs="*", type=Path)
    args = parser.parse_args()
    texts = [p.read_text(errors="replace") for p in args.logs if p.exists()]
    print(*count_lane(texts, args.status))


if __name__ == "__main__":
    main()
