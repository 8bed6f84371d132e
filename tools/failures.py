"""Failed GoogleTests: finds in a log of `ctest -V` which tests failed and what they printed.

`ctest -V` prints what several programs write at once, so the words of a failed one may stand
thousands of lines above the end of the log.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

LINES_OF_A_TEST = 20

PROGRAM_LINE = re.compile(r"^(\d+): (.*)$", re.MULTILINE)
RESULT = re.compile(r"^\s*\d+/\d+ Test +#(\d+): (\S+) .*?(Passed|\*\*\*.*|Not Run)", re.MULTILINE)
BEGIN = re.compile(r"\[ RUN      \] (\S+)")
END = re.compile(r"\[  (?:FAILED |     OK|SKIPPED) ")


@dataclass(frozen=True)
class Failure:
    program: str
    verdict: str  # of ctest: "Failed", "Timeout"
    test: str  # "" if the program failed outside of its tests
    printed: list[str]


def find(text: str) -> list[Failure]:
    outputs: dict[str, list[str]] = defaultdict(list)
    for number, line in PROGRAM_LINE.findall(text):
        outputs[number].append(line)
    found: list[Failure] = []
    for number, program, verdict in RESULT.findall(text):
        if verdict == "Passed":
            continue
        verdict = verdict.strip("*").split("  ")[0]
        tests = failed_tests(outputs[number]) or {"": outputs[number]}
        found += [Failure(program, verdict, test, printed) for test, printed in tests.items()]
    return found


def failed_tests(lines: list[str]) -> dict[str, list[str]]:
    """The tests that failed or did not end, each with its lines."""
    tests: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        begin = BEGIN.search(line)
        if begin:
            name = begin[1]
            tests[name] = []
        elif name and END.search(line):
            if "FAILED" not in line:
                del tests[name]
            name = ""
        elif name:
            tests[name].append(line)
    return tests


def describe(failure: Failure) -> str:
    """For people: the first lines of a test, because the first error causes the others; the last
    ones of a program that ended in none."""
    lines = failure.printed
    shown = lines[:LINES_OF_A_TEST] if failure.test else lines[-LINES_OF_A_TEST:]
    left = len(lines) - len(shown)
    more = [f"... {left} more lines in the log"] if left else []
    title = f"{failure.program}: {failure.test or 'no test of it'}: {failure.verdict}"
    return "\n".join([title, *(f"    {line}" for line in [*shown, *more])])
