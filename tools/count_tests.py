"""Counts passed, failed and skipped tests in the logs of one lane.

Knows what ctest -V, GoogleTest, pytest, tools/lint.py, spec/run.py and the lane collectives print.
Prints "PASSED FAILED SKIPPED". A lane that counts no tests of its own counts as one; a failed lane
counts at least one failure. A skipped test counts as failed if tools/may_skip.txt does not allow
the lane to skip it. Says on standard error which GoogleTests failed, and what they printed.
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

import failures
import skips

GTEST_PASSED = re.compile(r"\[  PASSED  \] (\d+) tests?\b")
GTEST_FAILED = re.compile(r"\[  FAILED  \] (\d+) tests?, listed below")
CTEST_LINE = re.compile(r"^(\d+): (.*)$", re.MULTILINE)
CTEST_RESULT = re.compile(r"^\s*\d+/\d+ Test +#(\d+): .*?(Passed|\*\*\*|Not Run)", re.MULTILINE)
SUMMARY = re.compile(r"^(?:=+ |lint: |spec: ).*?\b(?:passed|failed|error)", re.MULTILINE)
COLLECTIVES = re.compile(r"^collectives: (\d+) cases, (\d+) wrong", re.MULTILINE)
PYTEST_PASSED = re.compile(r"(\d+) passed")
PYTEST_FAILED = re.compile(r"(\d+) (?:failed|errors?)")


def total(pattern: re.Pattern[str], text: str) -> int:
    return sum(int(n) for n in pattern.findall(text))


def count_ctest(text: str) -> tuple[int, int]:
    """A program that counts its tests gives its counts, any other is one test."""
    outputs: dict[str, list[str]] = defaultdict(list)
    for number, line in CTEST_LINE.findall(text):
        outputs[number].append(line)
    passed = failed = 0
    for number, verdict in CTEST_RESULT.findall(text):
        output = "\n".join(outputs[number])
        own_passed, own_failed = total(GTEST_PASSED, output), total(GTEST_FAILED, output)
        if verdict != "Passed":
            own_failed = max(own_failed, 1)
        elif own_passed == 0:
            own_passed = 1
        passed += own_passed
        failed += own_failed
    return passed, failed


def count(text: str) -> tuple[int, int]:
    passed, failed = count_ctest(text)
    for cases, wrong in COLLECTIVES.findall(text):
        passed += int(cases) - int(wrong)
        failed += int(wrong)
    for line in text.splitlines():
        if SUMMARY.match(line):
            passed += total(PYTEST_PASSED, line)
            failed += total(PYTEST_FAILED, line)
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
    parser.add_argument("--lane", required=True, help="the name of the lane")
    parser.add_argument("--status", type=int, default=0, help="the lane's exit status")
    parser.add_argument("logs", nargs="*", type=Path, help="logs, and reports of pytest in XML")
    args = parser.parse_args()
    texts = [p.read_text(errors="replace") for p in args.logs if p.exists()]
    for failure in [one for text in texts for one in failures.find(text)]:
        print(failures.describe(failure), file=sys.stderr)
    found = [skip for text in texts for skip in skips.find(text)]
    allowed = skips.read_allowed(Path(__file__).with_name("may_skip.txt").read_text())
    bad = skips.not_allowed(args.lane, found, allowed)
    for skip in bad:
        print(f"skipped, not in tools/may_skip.txt: {skip.test}: {skip.reason}", file=sys.stderr)
    if bad:
        print(
            f"The lane {args.lane} fails. Give these tests what they need, or add them to"
            " tools/may_skip.txt with the reason why this lane cannot run them.",
            file=sys.stderr,
        )
    passed, failed = count_lane(texts, args.status)
    print(passed, failed + len(bad), len(found))


if __name__ == "__main__":
    main()
