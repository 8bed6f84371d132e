"""Skipped tests: finds them in the logs of a lane, and says which of them the lane may skip.

Knows what `ctest -V`, GoogleTest and pytest (--junitxml) write, and the lines "skipped part:" of
tools/dev/lanes.sh.
"""

from __future__ import annotations

import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

CONDITION = re.compile(r"the user is not root|Python is newer than 3\.(\d+)")


def holds(condition: str) -> bool:
    """Whether a condition holds here; none always does."""
    newer_than = CONDITION.fullmatch(condition)
    if newer_than and newer_than[1]:
        return sys.version_info[:2] > (3, int(newer_than[1]))
    return not condition or os.geteuid() != 0


@dataclass(frozen=True)
class Skip:
    test: str
    reason: str


@dataclass(frozen=True)
class Allowed:
    """A line of tools/may_skip.txt, for one of the lanes above it."""

    lane: str
    condition: str
    tests: str
    reason: str

    def covers(self, lane: str, skip: Skip) -> bool:
        pattern = re.escape(self.tests).replace(r"\*", ".*")
        return (
            self.lane == lane
            and re.fullmatch(pattern, skip.test) is not None
            and holds(self.condition)
        )


def read_allowed(text: str) -> list[Allowed]:
    """Raises ValueError, which names the line, if the text is not as its first lines say."""
    allowed: list[Allowed] = []
    lanes: list[str] = []
    condition = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line[0].isspace():
            names, _, condition = line.partition(" where ")
            lanes = names.split()
            if condition and not CONDITION.fullmatch(condition):
                known = "'the user is not root' and 'Python is newer than 3.N'"
                raise ValueError(f"line {number}: no condition '{condition}'; there are {known}")
            continue
        tests, _, reason = line.strip().partition(": ")
        if not lanes or not reason:
            raise ValueError(f"line {number}: write a line LANE..., and below it TEST: REASON")
        allowed += [Allowed(lane, condition, tests, reason) for lane in lanes]
    return allowed


def in_report(text: str) -> list[Skip]:
    """Skips in a report of pytest, as MODULE.FUNCTION. A whole module has its name alone."""
    found = []
    for case in ElementTree.fromstring(text).iter("testcase"):
        skipped = case.find("skipped")
        if skipped is None or skipped.get("type") == "pytest.xfail":
            continue
        names = [case.get("classname", "").rpartition(".")[2], case.get("name", "")]
        if not names[0]:
            names = [names[1].rpartition(".")[2]]
        reason = skipped.get("message", "")
        if reason == "collection skipped":  # the text is ('FILE', LINE, 'Skipped: REASON')
            reason = (skipped.text or "").strip("()").partition("Skipped: ")[2].rstrip("'\"")
        found.append(Skip(".".join(names), reason))
    return found


GTEST_RUN = re.compile(r"^\d+: \[ RUN      \] (\S+)")
GTEST_SKIPPED = re.compile(r"^\d+: \[  SKIPPED \] (\S+)(?: \(\d+ ms\))$")
PART = re.compile(r"^skipped part: (.*?): (.*)$")


def in_log(text: str) -> list[Skip]:
    """Skips in a log of ctest, each with what it said, and skipped parts of a lane.

    A whole program that ctest does not run counts as failed (count_tests.py).
    """
    found = []
    said: dict[str, list[str]] = {}
    for line in text.splitlines():
        number = line.partition(":")[0]
        if GTEST_RUN.match(line):
            said[number] = []
        elif match := GTEST_SKIPPED.match(line):
            found.append(Skip(match[1], " ".join(filter(None, said.get(number, [])))))
        elif match := PART.match(line):
            found.append(Skip(match[1], match[2]))
        elif number.isdigit() and not line.endswith(": Skipped"):
            said.setdefault(number, []).append(line.partition(":")[2].strip())
    return found


def find(text: str) -> list[Skip]:
    return in_report(text) if text.startswith("<?xml") else in_log(text)


def not_allowed(lane: str, skips: list[Skip], allowed: list[Allowed]) -> list[Skip]:
    return [s for s in skips if not any(a.covers(lane, s) for a in allowed)]
