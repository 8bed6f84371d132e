"""The kill tests' own eyes: a wrong sum, a wrong receipt and a disagreement are seen."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from kill_job import KillJob, Round, WorkerLog
from kills import Rounds

COUNT = 4096


def rounds_of(rank: int) -> Rounds:
    return Rounds(SimpleNamespace(rank=rank, size=4), COUNT * 4)  # type: ignore[arg-type]


def total(step: int, ranks: list[int]) -> np.ndarray:
    """Return what the ranks' contributions to a round add up to."""
    inputs = []
    for rank in ranks:
        rounds = rounds_of(rank)
        rounds.fill(step, stop=False)
        inputs.append(rounds.input)
    return np.sum(inputs, axis=0, dtype=np.float32)


def test_a_right_sum_is_right() -> None:
    rounds = rounds_of(1)
    for step, ranks in enumerate(([0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 3], [1, 3])):
        rounds.output[:] = total(step, ranks)
        assert rounds.check(step, ranks) == ("", f"{sum(1 << rank for rank in ranks):x}")


def test_pieces_may_have_ranks_that_were_there_before() -> None:
    rounds = rounds_of(0)
    rounds.output[:] = total(7, [0, 1])
    rounds.output[1024:2048] = total(7, [0, 1, 2, 3])[1024:2048]
    wrong, digest = rounds.check(7, [0, 1])
    assert (wrong, digest[:5]) == ("", "mixed")
    rounds = rounds_of(0)
    rounds.output[:] = total(7, [0, 1])
    for part, ranks in enumerate(([0, 1, 2, 3], [0, 1, 3], [0, 1, 2])):
        begin = 1024 * part
        rounds.output[begin : begin + 1024] = total(7, ranks)[begin : begin + 1024]
    assert rounds.check(7, [0, 1])[0] == ""


@pytest.mark.parametrize(
    ("step", "ranks", "receipt"),
    [
        (5, [0, 1, 2, 3], [0, 1, 2]),  # more than the receipt says, with another number of ranks
        (5, [0, 1, 2], [0, 1, 2, 3]),  # less
        (4, [0, 1, 2, 3], [0, 1, 2, 3]),  # of another round
        (5, [0, 0, 2, 3], [0, 1, 2, 3]),  # one twice
        (5, [0, 1, 2, 3], [1, 2, 3]),  # without this rank
    ],
)
def test_a_wrong_sum_is_seen(step, ranks, receipt) -> None:
    rounds = rounds_of(0)
    if receipt == [0, 1, 2]:  # rank 3 was lost before
        rounds.output[:] = total(4, receipt)
        assert rounds.check(4, receipt)[0] == ""
    rounds.output[:] = total(step, ranks)
    assert rounds.check(5, receipt)[0] != ""


def test_one_wrong_element_is_seen() -> None:
    for place in (1, 2049, COUNT - 1):
        rounds = rounds_of(2)
        rounds.output[:] = total(3, [0, 1, 2, 3])
        rounds.output[place] += 16
        wrong, _ = rounds.check(3, [0, 1, 2, 3])
        assert f"1 of {COUNT} elements, the first at {place}" in wrong


def test_ranks_do_not_come_back() -> None:
    rounds = rounds_of(0)
    rounds.output[:] = total(0, [0, 1])
    assert rounds.check(0, [0, 1])[0] == ""
    rounds.output[:] = total(1, [0, 1, 2])
    assert "lost before" in rounds.check(1, [0, 1, 2])[0]


def test_members_that_end_a_round_differently_are_seen() -> None:
    def log(rank: int, left: bool, *digests: str) -> WorkerLog:
        entries = [Round(i, 0, 0, 0, [], text, "", []) for i, text in enumerate(digests)]
        return WorkerLog(rank, 0x7FFFFFFF, entries, left=left)

    job = KillJob.__new__(KillJob)
    job.logs = {2: log(2, False, "a"), 0: log(0, True, "f", "f"), 1: log(1, True, "f", "7")}
    assert job.disagreements() == ["round 1: rank 0 has f, rank 1 has 7"]
    job.logs[1].rounds[1].digest = "f"
    assert job.disagreements() == []  # the lost one is no member
    assert job.gaps() == []
    del job.logs[0].rounds[0]
    assert job.gaps() == ["rank 0"]
