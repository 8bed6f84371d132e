"""How the rows of a tensor are dealt to ranks, by reducescatter and alltoall."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.call import Call


def rows_of(place: int, count: int, rows: int) -> int:
    """Return how many of `rows` the rank at `place` of `count` gets of a reducescatter.

    As evenly as possible: the first ranks get one more if they must. Numbers may be symbols.
    """
    return (rows + count - 1 - place) // count


def check_has_rows(shape: Sequence[int]) -> None:
    """Raise for a tensor that has no rows."""
    if len(shape) == 0:
        raise InvalidArgumentError(
            "a tensor without dimensions has no rows for each rank; use allreduce."
        )


def checked_splits(splits: Sequence[int] | None, size: int, rows: int) -> list[int] | None:
    """Return how many of the rows each of `size` ranks gets of an alltoall, None for equally many;
    raise for what is no such numbers."""
    if splits is None:
        if rows % size:
            raise InvalidArgumentError(
                f"alltoall without splits needs rows for {size} ranks alike; there are {rows}."
            )
        return None
    try:
        numbers = [operator.index(number) for number in splits]
    except TypeError as error:
        raise InvalidArgumentError(
            f"splits is {splits!r}; it must be a list of {size} whole numbers."
        ) from error
    if len(numbers) != size or min(numbers) < 0 or sum(numbers) != rows:
        raise InvalidArgumentError(
            f"splits is {numbers}; it must have {size} numbers, none of them negative, with the "
            f"sum {rows}."
        )
    return numbers


def sent_rows(call: Call, rows: int) -> list[int]:
    """Return how many of the `rows` of a tensor an alltoall gives to each rank."""
    size = call.process_set.size()
    return [rows // size] * size if call.splits is None else list(call.splits)
