"""What an operation of TensorFlow does when it runs: it starts an exchange, or answers at once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from byteps.common.errors import InvalidArgumentError, MismatchError, NotInitializedError
from byteps.common.operations.call import Call, request_of
from byteps.common.operations.splits import check_has_rows, checked_splits, rows_of
from byteps.common.programs.program_exchange import exchange_of
from byteps.common.session import default
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.session.session import Session
from byteps.common.types import DataType, Operation

if TYPE_CHECKING:
    from byteps import _core

DEVICE = "cpu"

# TensorFlow's numbers of the types.
_DATA_TYPES = {
    1: DataType.FLOAT32,
    2: DataType.FLOAT64,
    3: DataType.INT32,
    4: DataType.UINT8,
    5: DataType.INT16,
    6: DataType.INT8,
    9: DataType.INT64,
    10: DataType.BOOL,
    14: DataType.BFLOAT16,
    19: DataType.FLOAT16,
}


class _NotInitializedHereError(NotInitializedError):
    """The same, with a code that TensorFlow takes for a failed precondition."""

    code = MismatchError.code


UNKNOWN_SET = -3  # what Horovod's operations answer
NOT_INITIALIZED = -1


def begin(part: _core.KernelPart) -> None:
    """Start what a part of an operation says. The native module calls this, on any thread of
    TensorFlow; what it raises becomes the error of the operation."""
    try:
        if not part.text.startswith("{"):
            part.answer(answer(part.text))
            return
        session = default.current()
    except NotInitializedError as error:
        raise _NotInitializedHereError from error
    call = exchange_of(part.text).call(0)
    if call.operation in (Operation.BARRIER, Operation.JOIN):
        if call.operation is Operation.JOIN:
            # Ranks have made different numbers of calls without a name.
            session.unnamed.begin_again()
        part.expect_result()
        session.launch(request_of(session, call, DEVICE, DataType.UINT8, ()), part)
        return
    inputs = part.inputs
    dtype, shape, source = inputs[0]
    if call.operation in (Operation.ALLGATHER, Operation.ALLTOALL):
        if call.operation is Operation.ALLGATHER:
            shape = shape or [1]  # a number is one row
        call.splits = _splits(call, shape, inputs[1])
        part.expect_result()
        target = 0
    else:
        target = part.output(_result_shape(call, shape))
    _launch(session, call, part, (_DATA_TYPES[dtype], shape, source, target))


def _launch(
    session: Session,
    call: Call,
    part: _core.KernelPart,
    tensor: tuple[DataType, Sequence[int], int, int],
) -> None:
    dtype, shape, source, target = tensor
    session.launch(request_of(session, call, DEVICE, dtype, shape, source, target), part)


def _splits(
    call: Call, shape: Sequence[int], given: tuple[int, list[int], int]
) -> list[int] | None:
    if call.operation is Operation.ALLGATHER:
        return None
    check_has_rows(shape)
    _, (count, *more), place = given
    if more:
        raise InvalidArgumentError(f"splits has the shape {[count, *more]}; it must be a list.")
    splits = list((ctypes.c_int32 * count).from_address(place)) if count else None
    return checked_splits(splits, call.process_set.size(), shape[0])


def _result_shape(call: Call, shape: list[int]) -> list[int]:
    if call.operation is not Operation.REDUCESCATTER:
        return shape
    check_has_rows(shape)
    process_set = call.process_set
    return [rows_of(process_set.rank(), process_set.size(), shape[0]), *shape[1:]]


# Questions: what a graph asks each time it runs.


def question(what: str, process_set: ProcessSet = global_process_set) -> str:
    """Return the text of a question about a process set."""
    ranks = "" if process_set is global_process_set else " ".join(map(str, process_set.ranks))
    return f"{what} {ranks}".strip()


def answer(text: str) -> int:
    """Return the answer of now."""
    what, *numbers = text.split()
    return _ANSWERS[what]([int(number) for number in numbers])


def _set_of(ranks: Sequence[int]) -> ProcessSet:
    return default.process_set_with(ranks) if ranks else global_process_set


def _size_of_id(numbers: Sequence[int]) -> int:
    try:
        return default.process_set_of(numbers[0]).size()
    except ValueError:
        default.current()  # raises if that is why
        return UNKNOWN_SET


def _is_included(numbers: Sequence[int]) -> int:
    if not default.is_initialized():
        return NOT_INITIALIZED
    try:
        return int(default.process_set_of(numbers[0]).included())
    except ValueError:
        return UNKNOWN_SET


_ANSWERS: dict[str, Callable[[Sequence[int]], int]] = {
    "size": lambda ranks: _set_of(ranks).size(),
    "rank": lambda ranks: _set_of(ranks).rank(),
    "job_rank": lambda _: default.rank(),
    "local_size": lambda _: default.local_size(),
    "local_rank": lambda _: default.local_rank(),
    "size_of_id": _size_of_id,
    "included": _is_included,
}
