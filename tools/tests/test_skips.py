"""Which skipped tests fail a lane, and the list of those that do not (tools/may_skip.txt)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import skips
from repo import ROOT, files
from skips import Skip

GTEST = """\
3: [ RUN      ] Some/Suite.First/a
4: [ RUN      ] Other.Test
4: of the other
3: /byteps/a_test.cc:12: Skipped
3: no right to do so
3: [  SKIPPED ] Some/Suite.First/a (0 ms)
4: [       OK ] Other.Test (1 ms)
3: [  SKIPPED ] 1 test, listed below:
3: [  SKIPPED ] Some/Suite.First/a
1/1 Test #4: other .............   Passed    0.02 sec
skipped part: jax, old versions: there is no list
"""
REPORT = """<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest">
<testcase classname="tests.python.test_a" name="test_one[a: b]"><skipped type="pytest.skip"
message="no a">x.py:3: no a</skipped></testcase>
<testcase classname="tests.python.test_a" name="test_two"/>
<testcase classname="tests.python.test_a" name="test_bad"><skipped type="pytest.xfail" message=""/>
</testcase>
<testcase classname="" name="tests.python.test_b"><skipped type="pytest.skip"
message="collection skipped">('/b.py', 25, 'Skipped: no b (pip)')</skipped></testcase>
</testsuite></testsuites>"""


def test_skips_of_programs_and_of_pytest() -> None:
    assert skips.find(GTEST) == [
        Skip("Some/Suite.First/a", "no right to do so"),
        Skip("jax, old versions", "there is no list"),
    ]
    assert skips.find(REPORT) == [
        Skip("test_a.test_one[a: b]", "no a"),
        Skip("test_b", "no b (pip)"),
    ]


def test_what_the_list_allows() -> None:
    allowed = skips.read_allowed(
        "# words\n\ngcc asan\n    Some/*: because\n"
        "python where Python is newer than 3.9\n  a.b[*]: so\n"
        "python where Python is newer than 3.99\n  a.c: so\n"
    )
    one, other = Skip("Some/Suite.First/a", ""), Skip("Another", "")
    assert skips.not_allowed("gcc", [one, other], allowed) == [other]
    assert skips.not_allowed("asan", [one], allowed) == []
    assert skips.not_allowed("tsan", [one], allowed) == [one]
    assert skips.not_allowed("python", [Skip("a.b[1]", ""), Skip("a.bc", "")], allowed) == [
        Skip("a.bc", "")
    ]
    assert skips.not_allowed("python", [Skip("a.c", "")], allowed) == [Skip("a.c", "")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gcc\n    A.B\n", "line 2"),
        ("    A.B: no lane\n", "line 1"),
        ("gcc where it rains\n", "no condition 'it rains'"),
    ],
)
def test_a_wrong_list_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        skips.read_allowed(text)


def test_the_list_names_lanes_and_tests_that_exist() -> None:
    shell = "".join(p.read_text() for p in (ROOT / "tools" / "dev").glob("*.sh"))
    sources = [p for p in files() if re.search(r"(_test\.cc|tests/python/.*\.py)$", p)]
    names = "\n".join(sources) + "".join((ROOT / path).read_text() for path in sources)
    for allowed in skips.read_allowed((ROOT / "tools" / "may_skip.txt").read_text()):
        assert f"lane_{allowed.lane.replace('-', '_')}()" in shell, allowed
        if " " in allowed.tests:
            continue  # a part of a lane
        for word in re.findall(r"\w{4,}", re.sub(r"\[.*|/[^/]*$", "", allowed.tests)):
            assert word in names, (word, allowed)


def test_a_skip_that_is_not_in_the_list_counts_as_failed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(GTEST)
    command = [sys.executable, "-B", str(ROOT / "tools" / "count_tests.py"), "--lane", "gcc"]
    done = subprocess.run([*command, str(log)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "2", "2"]
    assert "Some/Suite.First/a: no right to do so" in done.stderr
    assert "tools/may_skip.txt" in done.stderr
