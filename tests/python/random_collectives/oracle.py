"""What every call of a case must bring, computed with numpy alone.

The order of a sum is part of the contract: contributions are combined in a binary tree over the
numbers of ranks, floats of two bytes in float32 and rounded once. The ranks of a machine that sums
first are one contribution, which has the tensor's own type and stands at its lowest rank.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from random_collectives.cases import FLOATS, Call, Case
from random_collectives.values import Array, narrowed, object_of, values_of, widened

Ranked = dict[int, Array]  # by rank

# Results that all ranks have alike, bit for bit.
ALIKE = ("allreduce", "push_pull", "broadcast", "allgather")


@dataclass(frozen=True)
class Expected:
    """What a call brings at one place: tensors, and what is there beside them."""

    tensors: tuple[Array, ...] = ()
    counts: tuple[int, ...] | None = None  # rows from each rank, of an alltoall with splits
    value: object = None


@dataclass(frozen=True)
class Oracle:
    """Knows the results of one job's cases."""

    seed: int
    machines: tuple[tuple[int, ...], ...]  # ranks that are one contribution; single ranks too
    cuts_averages: bool = True  # an allreduce cuts averages of integers; else they are rounded down

    def inputs(self, case: Case, index: int, rank: int) -> list[Array]:
        """Return the tensors that a rank brings to a call."""
        call = case.calls[index]
        place = call.ranks.index(rank)
        return [
            values_of((self.seed, case.number, index, i), tensor, place, call.op)
            for i, tensor in enumerate(call.tensors)
        ]

    def parts(self, case: Case, index: int) -> list[Array]:
        """Return what the root of a scatter has for each place."""
        return [self.inputs(case, index, rank)[0] for rank in case.calls[index].ranks]

    def given(self, case: Case, index: int, rank: int) -> object:
        """Return the object that a rank gives."""
        return object_of((self.seed, case.number, index), rank)

    def expected(self, case: Case, index: int, rank: int) -> Expected:
        """Return what a rank that makes a call must get."""
        call = case.calls[index]
        there = case.there(index)
        if call.kind == "barrier":
            return Expected()
        if call.kind == "broadcast_object":
            return Expected(value=self.given(case, index, call.root))
        if call.kind == "allgather_object":
            return Expected(value=[self.given(case, index, r) for r in there])
        whole = {r: self.inputs(case, index, r) for r in there}
        if call.kind == "alltoall":
            return _alltoall(call, {r: arrays[0] for r, arrays in whole.items()}, rank)
        tensors = [
            _ONE[call.kind](self, call, i, {r: arrays[i] for r, arrays in whole.items()}, rank)
            for i in range(len(call.tensors))
        ]
        return Expected(tuple(tensors))

    def combined(self, call: Call, index: int, inputs: dict[int, Array]) -> Array:
        """Return the combination of the ranks' tensors, the factors applied."""
        dtype = call.tensors[index].dtype
        scaled = {r: scale(array, dtype, call.prescale) for r, array in inputs.items()}
        groups = [{r: scaled[r] for r in machine if r in scaled} for machine in self.machines]
        groups = [group for group in groups if group]
        cut = self.cuts_averages and call.kind == "allreduce"
        result = combine(call.op, dtype, groups, len(call.ranks), toward_zero=cut)
        return scale(result, dtype, call.postscale)


def _alltoall(call: Call, inputs: dict[int, Array], rank: int) -> Expected:
    place = call.ranks.index(rank)
    pieces = []
    for sender, r in enumerate(call.ranks):
        rows = inputs[r].shape[0] // len(call.ranks)
        splits = call.splits[sender] if call.splits else [rows] * len(call.ranks)
        begin = sum(splits[:place])
        pieces.append(inputs[r][begin : begin + splits[place]])
    counts = tuple(len(piece) for piece in pieces)
    return Expected((np.concatenate(pieces),), counts if call.splits else None)


def _whole(oracle: Oracle, call: Call, i: int, inputs: dict[int, Array], rank: int) -> Array:
    return oracle.combined(call, i, inputs)


def _to_root(oracle: Oracle, call: Call, i: int, inputs: dict[int, Array], rank: int) -> Array:
    return oracle.combined(call, i, inputs) if rank == call.root else inputs[rank]


def _own_rows(oracle: Oracle, call: Call, i: int, inputs: dict[int, Array], rank: int) -> Array:
    """The rows of a rank: the first ranks get one more if they must."""
    result = oracle.combined(call, i, inputs)
    return np.array_split(result, len(call.ranks))[call.ranks.index(rank)]


def _of_root(oracle: Oracle, call: Call, i: int, inputs: dict[int, Array], rank: int) -> Array:
    return inputs[call.root]


def _joined(oracle: Oracle, call: Call, i: int, inputs: dict[int, Array], rank: int) -> Array:
    return np.concatenate([np.atleast_1d(array) for array in inputs.values()])


def _gathered(oracle: Oracle, call: Call, i: int, inputs: dict[int, Array], rank: int) -> Array:
    """What lies behind each other at the root; the others get nothing."""
    if rank != call.root:
        return np.empty(0, inputs[rank].dtype)
    return np.stack(list(inputs.values()))


def _own(oracle: Oracle, call: Call, i: int, inputs: dict[int, Array], rank: int) -> Array:
    """A scatter: the root has what each place gets."""
    return inputs[rank]


def _of_the_one_before(
    oracle: Oracle, call: Call, i: int, inputs: dict[int, Array], rank: int
) -> Array:
    return inputs[call.ranks[call.ranks.index(rank) - 1]]


_ONE: dict[str, Callable[..., Array]] = {
    "allreduce": _whole,
    "push_pull": _whole,
    "reduce": _to_root,
    "reducescatter": _own_rows,
    "broadcast": _of_root,
    "allgather": _joined,
    "gather": _gathered,
    "scatter": _own,
    "send": _of_the_one_before,
}


def scale(array: Array, dtype: str, factor: float) -> Array:
    """Return array * factor: floats rounded once, integers cut toward zero."""
    if factor == 1.0:
        return array
    if dtype in FLOATS:
        wide = widened(array, dtype)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return narrowed(wide * wide.dtype.type(factor), dtype)
    return np.trunc(array.astype(np.float64) * factor).astype(array.dtype)


def combine(
    op: str,
    dtype: str,
    groups: Sequence[Ranked],
    divisor: int,
    toward_zero: bool = False,
) -> Array:
    """Return the combination of groups of contributions, each of which is combined first."""
    if dtype == "bool":
        arrays = [array for group in groups for array in group.values()]
        return functools.reduce(_OF_BOOL[op], arrays)
    if op == "average":
        return _average(dtype, groups, divisor, toward_zero)
    return narrowed(_tree(op, dtype, _partials(op, dtype, groups)), dtype)


def _partials(op: str, dtype: str, groups: Sequence[Ranked]) -> Ranked:
    """Return what each group contributes, at its lowest rank."""
    return {min(group): narrowed(_tree(op, dtype, group), dtype) for group in groups}


def _average(dtype: str, groups: Sequence[Ranked], divisor: int, toward_zero: bool) -> Array:
    if dtype in FLOATS or np.dtype(dtype).kind == "c":
        total = _tree("sum", dtype, _partials("sum", dtype, groups))
        part = total.real.dtype.type(divisor)
        with np.errstate(all="ignore"):
            if np.iscomplexobj(total):
                # Each part by itself: the quotient of complex numbers is computed another way.
                parts = np.stack([total.real / part, total.imag / part], axis=-1)
                return parts.view(total.dtype).reshape(total.shape)
            return narrowed(total / part, dtype)
    wide = [array.astype(np.int64) for group in groups for array in group.values()]
    total = np.asarray(functools.reduce(np.add, wide))
    down = total // divisor
    if toward_zero:
        down = down + ((total < 0) & (down * divisor != total))
    return np.asarray(down).astype(dtype)


def _tree(op: str, dtype: str, arrays: Ranked) -> Array:
    """Return the combination in the tree over the ranks; floats of two bytes as float32."""
    wide = {rank: np.asarray(widened(array, dtype)) for rank, array in arrays.items()}
    with np.errstate(all="ignore"):
        return _node(_OPS[op], wide, 1 << max(wide).bit_length())


def _node(op: Callable[[Array, Array], Array], arrays: Ranked, span: int) -> Array:
    """Return the node above ranks that lie in one aligned run of `span` ranks."""
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    half = span // 2
    left = {rank: array for rank, array in arrays.items() if not rank & half}
    right = {rank: array for rank, array in arrays.items() if rank & half}
    if not left or not right:
        return _node(op, arrays, half)
    return op(_node(op, left, half), _node(op, right, half))


def _extreme(is_max: bool, a: Array, b: Array) -> Array:
    """Return the extreme of two: NaN if one is NaN, and -0.0 is less than 0.0."""
    if a.dtype.kind != "f":
        return np.maximum(a, b) if is_max else np.minimum(a, b)
    a_is_less = (a < b) | ((a == b) & np.signbit(a) & ~np.signbit(b))
    chosen = np.where(a_is_less != is_max, a, b)
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), chosen)


def _plus(a: Array, b: Array) -> Array:
    return np.asarray(np.add(a, b))


def _times(a: Array, b: Array) -> Array:
    return np.asarray(np.multiply(a, b))


_OPS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": _plus,
    "product": _times,
    "min": functools.partial(_extreme, False),
    "max": functools.partial(_extreme, True),
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
_OF_BOOL: dict[str, Callable[[Array, Array], Array]] = {
    "sum": np.logical_or,
    "average": np.logical_or,
    "max": np.logical_or,
    "bor": np.logical_or,
    "product": np.logical_and,
    "min": np.logical_and,
    "band": np.logical_and,
    "bxor": np.logical_xor,
}


def difference(found: Array, wanted: Array, dtype: str) -> str:
    """Return how a result differs from what it must be; nothing if it does not.

    Every bit counts, but one NaN is as good as another.
    """
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"is {found.dtype}{list(found.shape)}, must be {wanted.dtype}{list(wanted.shape)}"
    a, b = (np.ascontiguousarray(one).reshape(-1) for one in (found, wanted))
    bytes_of = [one.view(np.uint8).reshape(a.size, a.itemsize) for one in (a, b)]
    wrong = (bytes_of[0] != bytes_of[1]).any(axis=1)
    if dtype in FLOATS:
        wrong &= ~(np.isnan(widened(a, dtype)) & np.isnan(widened(b, dtype)))
    places = np.flatnonzero(wrong)
    if not places.size:
        return ""
    first = places[0]
    shown = [widened(one[first : first + 4], dtype).tolist() for one in (a, b)]
    return f"{places.size} of {a.size} elements differ; from {first} on: {shown[0]}, not {shown[1]}"
