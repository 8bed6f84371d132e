"""What `./dev test` says of failed GoogleTests."""

from failures import LINES_OF_A_TEST, Failure, describe, find

LOG = """\
2: [ RUN      ] A.Good
3: [ RUN      ] C.Other
2: [       OK ] A.Good (0 ms)
2: [ RUN      ] A.Bad
3: words of another program
2: a.cc:7: Failure
2: [  FAILED  ] A.Bad (0 ms)
2: [  FAILED  ] 1 test, listed below:
2: [  FAILED  ] A.Bad
2: [ RUN      ] A.Left
2: [  SKIPPED ] A.Left (0 ms)
3: [       OK ] C.Other (0 ms)
4: [ RUN      ] D.Slow
4: waits
5: cannot start
 1/4 Test #3: good .............   Passed    0.02 sec
 2/4 Test #2: bad ..............***Failed    0.02 sec
 3/4 Test #4: slow .............***Timeout 300.02 sec
 4/4 Test #5: crash ............***Exception: SegFault  0.01 sec
"""


def test_failed_tests_are_found_with_what_they_printed() -> None:
    assert find(LOG) == [
        Failure("bad", "Failed", "A.Bad", ["a.cc:7: Failure"]),
        Failure("slow", "Timeout 300.02 sec", "D.Slow", ["waits"]),
        Failure("crash", "Exception: SegFault", "", ["cannot start"]),
    ]


def test_a_log_without_failures_has_none() -> None:
    assert find("===== 5 passed, 2 skipped in 0.12s =====\n") == []


def test_the_first_lines_of_a_test_and_the_last_ones_of_a_program_are_shown() -> None:
    lines = [str(n) for n in range(LINES_OF_A_TEST + 1)]
    test = describe(Failure("bad", "Failed", "A.Bad", lines))
    assert test.startswith("bad: A.Bad: Failed\n    0\n")
    assert test.endswith("    ... 1 more lines in the log")
    program = describe(Failure("bad", "Failed", "", lines))
    assert program.startswith("bad: no test of it: Failed\n    1\n")
