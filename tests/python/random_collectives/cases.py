"""Random cases of collective operations. A case follows from a seed and its number, nothing else.

Every rank makes the same case for itself. Nothing here knows a framework or runs an operation.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

FLOATS = ("float32", "float64", "float16", "bfloat16")
SIGNED = ("int8", "int16", "int32", "int64")
SUMMED = (*FLOATS, *SIGNED, "uint8", "bool")
MOVED = ("uint16", "uint32", "uint64")
COMPLEX = ("complex64", "complex128")

OPS = ("average", "sum", "min", "max", "product")
BITS = ("band", "bor", "bxor")

# Between two cases whose numbers are multiples of this the process sets are others.
CASES_OF_SETS = 100


@dataclass(frozen=True)
class Tensor:
    """One tensor of a call, on each rank that makes the call."""

    dtype: str
    shapes: tuple[tuple[int, ...], ...]  # in the order of the ranks
    values: str = "whole"  # see values.py
    layout: str = "plain"  # see layouts.py


@dataclass(frozen=True)
class Call:
    """One call of a case. A place is the number of a rank among `ranks`."""

    kind: str
    ranks: tuple[int, ...]
    tensors: tuple[Tensor, ...] = ()
    op: str = ""
    name: str | None = None
    root: int = 0  # a rank of the job
    splits: tuple[tuple[int, ...], ...] = ()  # by the place that sends, and the one that gets
    priority: int = 0
    prescale: float = 1.0
    postscale: float = 1.0
    is_group: bool = False
    in_place: bool = False
    has_handle: bool = False
    variant: int = 0  # drivers choose by it among ways that mean the same


@dataclass(frozen=True)
class Case:
    """Calls that are on their way together, or one after the other."""

    number: int
    calls: tuple[Call, ...]
    is_together: bool = False
    is_compiled: bool = False
    orders: tuple[tuple[int, ...], ...] = ()  # in which each rank makes its calls
    waits: tuple[tuple[int, ...], ...] = ()  # and waits for them
    leaving: tuple[int, ...] = ()  # before which call each rank joins

    def there(self, index: int) -> tuple[int, ...]:
        """Return the ranks that make a call."""
        ranks = self.calls[index].ranks
        return tuple(r for r in ranks if self.leaving[r] > index) if self.leaving else ranks


@dataclass(frozen=True)
class Adapter:
    """What a driver can do."""

    kinds: dict[str, int]  # with how often they come
    moved: tuple[str, ...] = ()  # types that are only moved
    layouts: tuple[str, ...] = ("plain",)
    ops: tuple[str, ...] = OPS
    handles: tuple[str, ...] = ()  # kinds that have a form with a handle
    in_place: tuple[str, ...] = ()  # kinds that have a form in place
    has_copies: bool = True  # these kinds have another form, too
    grouped: tuple[str, ...] = ("allreduce", "allgather", "reducescatter")
    compiled: int = 0  # how many of 100 cases are one program
    odd_results_alone: bool = False  # a program has a call with other shapes per rank by itself
    orders_differ: bool = True  # ranks may start calls in different orders
    has_names: bool = True
    has_scales: bool = True
    joins: bool = True
    flushes: bool = False  # the framework scales, and takes the smallest floats for zero
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)  # op: more types it takes


_KINDS = {
    "allreduce": 6,
    "push_pull": 3,
    "broadcast": 3,
    "allgather": 4,
    "alltoall": 4,
    "reducescatter": 4,
    "barrier": 1,
    "broadcast_object": 1,
    "allgather_object": 1,
}
_HANDLES = ("allreduce", "push_pull", "broadcast", "allgather", "alltoall", "reducescatter")
_IN_PLACE = ("allreduce", "push_pull", "broadcast")

ADAPTERS = {
    "numpy": Adapter(
        _KINDS,
        MOVED,
        ("plain", "strided", "transposed", "reversed", "offset", "unaligned", "swapped", "fixed"),
        handles=_HANDLES,
        in_place=_IN_PLACE,
    ),
    "torch": Adapter(
        _KINDS,
        layouts=("plain", "strided", "transposed", "offset"),
        handles=_HANDLES,
        in_place=_IN_PLACE,
    ),
    "c10d": Adapter(
        {
            "allreduce": 6,
            "reduce": 3,
            "broadcast": 3,
            "allgather": 4,
            "gather": 2,
            "scatter": 2,
            "alltoall": 4,
            "reducescatter": 4,
            "send": 2,
            "barrier": 1,
            "broadcast_object": 1,
            "allgather_object": 1,
        },
        (*MOVED, *COMPLEX),
        ("plain", "strided", "transposed", "offset"),
        (*OPS, *BITS),
        handles=(*_HANDLES, "reduce", "gather", "scatter", "send"),
        in_place=("allreduce", "broadcast", "reduce"),
        has_copies=False,
        grouped=(),
        orders_differ=False,
        has_names=False,
        has_scales=False,
        joins=False,
        extra={"sum": (*MOVED, *COMPLEX), "product": MOVED, "average": COMPLEX},
    ),
    "tensorflow": Adapter(_KINDS, ("uint16",), compiled=25, flushes=True),
    "jax": Adapter(
        _KINDS,
        MOVED,
        handles=("push_pull",),
        compiled=10,
        odd_results_alone=True,
        flushes=True,
    ),
}


def _has_odd_results(call: Call) -> bool:
    """Return whether the results have other shapes on each rank."""
    size = len(call.ranks)
    return call.kind == "reducescatter" and any(
        tensor.shapes[0][0] % size for tensor in call.tensors
    )


def sets_of(seed: int, number: int, size: int) -> list[tuple[int, ...]]:
    """Return the ranks of the process sets that are registered while a case runs."""
    dice = random.Random(f"sets {seed} {number // CASES_OF_SETS} {size}")
    every = [
        ranks for n in range(1, size) for ranks in itertools.combinations(range(size), n)
    ]  # the set of all ranks is there anyway
    return dice.sample(every, min(3, len(every)))


def make_case(seed: int, number: int, adapter: str, size: int) -> Case:
    """Return a case for a job of so many ranks."""
    return _Maker(seed, number, adapter, size).case()


class _Maker:
    def __init__(self, seed: int, number: int, adapter: str, size: int) -> None:
        self._dice = random.Random(f"case {seed} {number} {adapter} {size}")
        self._number = number
        self._size = size
        self._adapter = ADAPTERS[adapter]
        self._is_torch = adapter == "torch"
        self._sets = [tuple(range(size)), *sets_of(seed, number, size)]
        self._names: set[str] = set()

    def _chance(self, percent: int) -> bool:
        return self._dice.randrange(100) < percent

    def case(self) -> Case:
        """Return the case: of one call, of calls together, of a program, or with joins."""
        if self._adapter.joins and self._chance(3):
            return self._with_joins()
        is_compiled = self._chance(self._adapter.compiled)
        is_together = is_compiled or (bool(self._adapter.handles) and self._chance(35))
        count = self._dice.randint(1, 6) if is_together else 1
        calls = tuple(self._call(i, is_together, is_compiled) for i in range(count))
        if is_compiled and self._adapter.odd_results_alone:
            # Beside other calls it may end in an OutOfStepError, as docs/jax.md says.
            odd = [call for call in calls if _has_odd_results(call)]
            calls = tuple(odd[:1]) or calls
        orders = tuple(self._order(calls, rank, is_compiled) for rank in range(self._size))
        return Case(
            self._number,
            calls,
            is_together,
            is_compiled,
            orders,
            waits=tuple(self._shuffled(order) for order in orders),
        )

    def _order(self, calls: Sequence[Call], rank: int, is_compiled: bool) -> tuple[int, ...]:
        """Return the order in which a rank makes its calls. Those without a name are counted, so
        all ranks make them in the same order."""
        mine = [i for i, call in enumerate(calls) if rank in call.ranks]
        if not self._adapter.orders_differ or is_compiled:
            return tuple(mine)
        shuffled = list(self._shuffled(mine))
        counted = iter(sorted(i for i in mine if calls[i].name is None))
        return tuple(next(counted) if calls[i].name is None else i for i in shuffled)

    def _shuffled(self, items: Sequence[int]) -> tuple[int, ...]:
        return tuple(self._dice.sample(items, len(items)))

    def _with_joins(self) -> Case:
        kinds = ("allreduce", "allgather", "push_pull", "barrier", "reducescatter")
        count = self._dice.randint(2, 5)
        calls = tuple(
            self._call(i, kind=self._dice.choice(kinds), ranks=self._sets[0]) for i in range(count)
        )
        leaving = tuple(self._dice.randint(0, count) for _ in range(self._size))
        orders = tuple(tuple(range(last)) for last in leaving)
        return Case(self._number, calls, orders=orders, waits=orders, leaving=leaving)

    def _call(
        self,
        index: int,
        is_together: bool = False,
        is_compiled: bool = False,
        kind: str = "",
        ranks: tuple[int, ...] = (),
    ) -> Call:
        kinds = dict(self._adapter.kinds)
        if is_together:
            allowed = _HANDLES if is_compiled else self._adapter.handles
            kinds = {one: kinds[one] for one in allowed if one in kinds}
        kind = kind or self._dice.choices(list(kinds), list(kinds.values()))[0]
        if kind == "push_pull" or is_compiled:
            ranks = self._sets[0]
        ranks = ranks or self._dice.choice([self._sets[0], *self._sets])
        if kind == "send" and len(ranks) == 1:
            kind = "broadcast"
        has_handle = kind in self._adapter.handles and (is_together or self._chance(30))
        return getattr(self, f"_{kind}", self._of_objects)(
            kind,
            ranks,
            is_compiled,
            {
                "name": self._name(index, kind, has_handle),
                "has_handle": has_handle,
                "variant": self._dice.randrange(12),
            },
        )

    def _name(self, index: int, kind: str, has_handle: bool) -> str | None:
        if not self._adapter.has_names:
            return None
        has_none = self._chance(25)
        if has_none and not (self._is_torch and kind == "push_pull" and not has_handle):
            return None
        pool = f"often used {self._dice.randrange(8)}"
        own = f"case {self._number} call {index}"
        name = self._dice.choice([pool, own, own, f"Gewöhnlich/層.{self._dice.randrange(4)}"])
        if name in self._names:
            name = own
        self._names.add(name)
        return name

    # Shapes and values.

    def _length(self) -> int:
        return self._dice.choice([0, 1, 1, 2, 3, 3, 4, 5, 7, 8, 9, 13, 17, 31, 33, 64, 65])

    def _shape(self, has_rows: bool = False) -> tuple[int, ...]:
        what = self._dice.randrange(100)
        if what < 8 and not has_rows:
            return ()
        if what < 60:
            return tuple(self._length() for _ in range(self._dice.randint(1, 3)))
        if what < 90:
            return (self._dice.randint(1, 40), self._dice.randint(1, 400))
        return (self._dice.randint(1, 300), self._dice.randint(100, 900))

    def _type(self, more: Sequence[str] = ()) -> str:
        return self._dice.choice([*SUMMED, *more])

    def _layout(self) -> str:
        return "plain" if self._chance(40) else self._dice.choice(self._adapter.layouts)

    def _tensor(
        self, dtype: str, shapes: Sequence[tuple[int, ...]], values: Sequence[str], in_place: bool
    ) -> Tensor:
        layout = self._layout()
        if (layout == "fixed" and in_place) or (layout == "swapped" and dtype == "bfloat16"):
            layout = "plain"  # nobody has bfloat16 in two byte orders
        return Tensor(dtype, tuple(shapes), self._dice.choice(values), layout)

    def _same(self, ranks: Sequence[int], in_place: bool, options: dict, has_rows: bool) -> Tensor:
        """Return a tensor of a reduction: alike on all ranks."""
        op = options["op"]
        dtype = self._type(self._adapter.extra.get(op, ()))
        if op in BITS:
            dtype = self._dice.choice([*SIGNED, "uint8", "bool"])
        factors = (options.get("prescale", 1.0), options.get("postscale", 1.0))
        if dtype == "bool" and factors != (1.0, 1.0):
            dtype = "float32"
        if dtype in COMPLEX:
            values = ["whole"]
        elif dtype not in FLOATS and factors != (1.0, 1.0):
            values = ["few"]
        elif self._adapter.flushes and factors != (1.0, 1.0):
            values = ["whole", "random"]
        else:
            values = ["whole", "random", "wild"]
        return self._tensor(dtype, [self._shape(has_rows)] * len(ranks), values, in_place)

    def _factors(self, op: str) -> dict[str, float]:
        if not self._adapter.has_scales or op == "product" or self._chance(75):
            return {}
        factors = [0.5, 1.0, 2.0, 3.0, 0.1]
        return {"prescale": self._dice.choice(factors), "postscale": self._dice.choice(factors)}

    def _is_in_place(self, kind: str) -> bool:
        if not self._adapter.has_copies:
            return kind in self._adapter.in_place
        return kind in self._adapter.in_place and self._chance(50)

    # Kinds of calls.

    def _allreduce(
        self, kind: str, ranks: tuple[int, ...], is_compiled: bool, options: dict
    ) -> Call:
        op = self._dice.choice(self._adapter.ops)
        options.update(op=op, **self._factors(op))
        is_group = kind in self._adapter.grouped and self._chance(30)
        in_place = self._is_in_place(kind)
        has_rows = kind == "reducescatter"
        count = self._dice.randint(1, 5) if is_group else 1
        tensors = [self._same(ranks, in_place, options, has_rows) for _ in range(count)]
        return Call(kind, ranks, tuple(tensors), is_group=is_group, in_place=in_place, **options)

    _reducescatter = _allreduce

    def _reduce(self, kind: str, ranks: tuple[int, ...], is_compiled: bool, options: dict) -> Call:
        return self._allreduce(
            kind, ranks, is_compiled, {**options, "root": self._dice.choice(ranks)}
        )

    def _push_pull(
        self, kind: str, ranks: tuple[int, ...], is_compiled: bool, options: dict
    ) -> Call:
        options.update(op=self._dice.choice(["average", "sum"]))
        in_place = self._is_in_place(kind)
        tensor = self._same(ranks, in_place, options, has_rows=False)
        priority = self._dice.choice([0, 0, -1, 7, -100, 2**31 - 1])
        return Call(kind, ranks, (tensor,), in_place=in_place, priority=priority, **options)

    def _broadcast(
        self, kind: str, ranks: tuple[int, ...], is_compiled: bool, options: dict
    ) -> Call:
        in_place = self._is_in_place(kind)
        dtype, shape = self._type(self._adapter.moved), self._shape()
        tensor = self._tensor(dtype, [shape] * len(ranks), ["whole", "wild"], in_place)
        root = self._dice.choice(ranks)
        return Call(kind, ranks, (tensor,), root=root, in_place=in_place, **options)

    def _scatter(self, kind: str, ranks: tuple[int, ...], is_compiled: bool, options: dict) -> Call:
        """Make a scatter or a gather: the root has one of these tensors for each rank."""
        dtype, shape = self._type(self._adapter.moved), self._shape()
        tensor = self._tensor(dtype, [shape] * len(ranks), ["whole", "wild"], False)
        return Call(kind, ranks, (tensor,), root=self._dice.choice(ranks), **options)

    _gather = _scatter

    def _send(self, kind: str, ranks: tuple[int, ...], is_compiled: bool, options: dict) -> Call:
        """Make a ring: each place sends to the next one."""
        dtype, shape = self._type(self._adapter.moved), self._shape()
        tensor = self._tensor(dtype, [shape] * len(ranks), ["whole", "wild"], False)
        return Call(kind, ranks, (tensor,), **options)

    def _allgather(
        self, kind: str, ranks: tuple[int, ...], is_compiled: bool, options: dict
    ) -> Call:
        is_group = kind in self._adapter.grouped and self._chance(30)
        count = self._dice.randint(1, 4) if is_group else 1
        tensors = []
        for _ in range(count):
            shape = self._shape()
            shapes = [shape] * len(ranks)
            if shape and not is_compiled and self._chance(70):
                shapes = [(self._length(), *shape[1:]) for _ in ranks]
            dtype = self._type(self._adapter.moved)
            tensors.append(self._tensor(dtype, shapes, ["whole", "wild"], False))
        return Call(kind, ranks, tuple(tensors), is_group=is_group, **options)

    def _alltoall(
        self, kind: str, ranks: tuple[int, ...], is_compiled: bool, options: dict
    ) -> Call:
        size = len(ranks)
        more = self._shape(has_rows=True)[1:]
        splits: tuple[tuple[int, ...], ...] = ()
        if is_compiled or self._chance(40):
            rows = self._length() * size
            shapes = [(rows, *more)] * size
        else:
            splits = tuple(tuple(self._length() for _ in ranks) for _ in ranks)
            shapes = [(sum(row), *more) for row in splits]
        dtype = self._type(self._adapter.moved)
        tensor = self._tensor(dtype, shapes, ["whole", "wild"], False)
        return Call(kind, ranks, (tensor,), splits=splits, **options)

    def _of_objects(
        self, kind: str, ranks: tuple[int, ...], is_compiled: bool, options: dict
    ) -> Call:
        """Make a call without tensors: a barrier, or one of objects."""
        return Call(kind, ranks, root=self._dice.choice(ranks), **options)
