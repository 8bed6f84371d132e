"""The counts behind the last line of `./dev test`."""

from count_tests import count_lane

GTEST = """\
2: [  PASSED  ] 12 tests.
3: all symbols as expected
1/2 Test #2: base .............   Passed    0.02 sec
2/2 Test #3: symbols ..........   Passed    0.02 sec
"""
GTEST_BAD = """\
2: [  PASSED  ] 11 tests.
2: [  FAILED  ] 1 test, listed below:
2: [  FAILED  ] A.B
1/2 Test #2: base .............***Failed    0.02 sec
2/2 Test #14: crash ...........***Exception: SegFault  0.01 sec
"""
PYTEST = "tests/a.py .....\n===== 5 passed, 2 skipped in 0.12s =====\n"
PYTEST_BAD = "==== 1 failed, 4 passed, 1 error in 0.12s ====\n"
COLLECTIVES = "20 of 40 cases, 9 s: jax 2\ncollectives: 40 cases, 3 wrong, seed 7\n"
LINT = "ok  tidy 0.1 s\nlint: 8 passed, 1 failed\n"


def test_counts() -> None:
    assert count_lane([GTEST], 0) == (13, 0)
    assert count_lane([GTEST_BAD], 8) == (11, 2)
    assert count_lane([PYTEST], 0) == (5, 0)
    assert count_lane([PYTEST_BAD], 1) == (4, 2)
    assert count_lane([LINT, GTEST], 1) == (21, 1)
    assert count_lane([COLLECTIVES], 1) == (37, 3)


def test_lane_without_tests_counts_once() -> None:
    assert count_lane([], 0) == (1, 0)
    assert count_lane(["compiled"], 1) == (0, 1)


def test_failed_lane_fails_even_if_its_tests_passed() -> None:
    assert count_lane([GTEST], 1) == (13, 1)
