"""Process sets of one session: registering, ids, texts."""

from __future__ import annotations

import pytest

from byteps.common.errors import NotInitializedError
from byteps.common.session import default, process_sets


def test_a_second_init_finds_and_registers_process_sets(core) -> None:
    first, again, more = (process_sets.ProcessSet(ranks) for ranks in ([1], [1], [0]))
    default.init(process_sets=[first])
    default.init(process_sets=[first, again, more][1:])
    assert (first.process_set_id, again.process_set_id, more.process_set_id) == (1, 1, 2)
    assert core.opened == 1
    assert core.sets == {1: [1], 2: [0]}
    assert default.remove_process_set(again)
    assert first.process_set_id is again.process_set_id is None
    assert not default.remove_process_set(first)


def test_an_init_with_a_process_set_twice_leaves_the_session(core) -> None:
    for wrong, text in (([[0], [0]], "given twice"), ([[0], [0, 1]], "has the same ranks")):
        with pytest.raises(ValueError, match=text):
            default.init(process_sets=wrong)
        assert default.is_initialized()
    sets = [process_sets.ProcessSet(ranks) for ranks in ([0], [1])]
    default.init(process_sets=sets)
    assert [item.process_set_id for item in sets] == [1, 2]


def test_the_id_of_a_removed_process_set_is_given_again(core) -> None:
    default.init()
    first, second = default.add_process_set([0]), default.add_process_set([1])
    default.remove_process_set(first)
    third = default.add_process_set([0])
    assert (third.process_set_id, second.process_set_id) == (1, 2)
    # The library has a number of its own for each, and so have names that go by sets.
    assert core.sets == {2: [1], 3: [0]}
    assert process_sets.registered_number(third) == process_sets.number_of(third) == 3
    assert default.process_set_of(1) is third


def test_a_process_set_as_a_text_is_that_of_horovod(core) -> None:
    everybody, some = process_sets.global_process_set, process_sets.ProcessSet([1, 0])
    assert everybody.ranks == []
    assert str(some) == "ProcessSet(process_set_id=None, ranks=[0, 1], mpi_comm=None)"
    default.init()
    assert str(everybody) == "ProcessSet(process_set_id=0, ranks=[0, 1], mpi_comm=None)"
    only = default.add_process_set([1])
    assert str(only) == "ProcessSet(process_set_id=1, ranks=[1], mpi_comm=None)"


def test_the_set_of_all_ranks_belongs_to_the_session_of_the_moment(core) -> None:
    everybody = process_sets.global_process_set
    for _ in range(2):
        with pytest.raises(NotInitializedError):
            everybody.size()
        assert everybody.ranks == []
        default.init()
        assert (everybody.rank(), everybody.size(), everybody.included()) == (0, 2, True)
        default.shutdown()
    assert everybody.process_set_id == 0


def test_process_sets_are_registered_in_order(core) -> None:
    first = process_sets.ProcessSet([1])
    default.init(process_sets=[first, [0]])
    assert first.process_set_id == 1
    assert core.sets == {1: [1], 2: [0]}
    assert not first.included()
    with pytest.raises(ValueError, match="rank 0 is not in the process set 1"):
        first.rank()
    default.shutdown()
    assert first.process_set_id is None
