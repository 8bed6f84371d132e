"""How the workers of a job are spread over its machines."""

from __future__ import annotations

import itertools

import pytest

from byteps.common.job.layout import Layout, read_sizes

SHAPES = [sizes for n in range(1, 5) for sizes in itertools.product((1, 2, 3), repeat=n)]


@pytest.mark.parametrize("sizes", SHAPES[::7])
def test_every_rank_has_one_place_and_every_place_one_rank(sizes) -> None:
    layout = Layout(sizes)
    assert (layout.size, layout.machines) == (sum(sizes), len(sizes))
    places = layout.places()
    for rank, (machine, local_rank) in enumerate(places):
        assert layout.first_rank(machine) + local_rank == rank
        assert local_rank < sizes[machine]
    turns = layout.places_in_turn()
    assert sorted(turns) == places
    for (machine, local_rank), (after, local_after) in itertools.pairwise(turns):
        assert local_after > local_rank or (local_after == local_rank and after > machine)


def test_equal_machines_are_told_as_ever() -> None:
    assert Layout((2, 2)).variables() == {"DMLC_NUM_WORKER": "2", "BYTEPS_LOCAL_SIZE": "2"}
    assert Layout((2, 1)).variables() == {"DMLC_NUM_WORKER": "2", "BYTEPS_LOCAL_SIZES": "2,1"}


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("2,1", (2, 1)),
        (" 2 , 1, ", (2, 1)),
        ("4", (4,)),
        *((bad, None) for bad in ("", ",", "2,,1", "2,0", "2,x", "-1", "1025", "2(x2)")),
    ],
)
def test_a_list_is_read_as_the_library_reads_it(text, sizes) -> None:
    assert read_sizes(text) == sizes
