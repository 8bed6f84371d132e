"""A worker: every operation of byteps.jax inside jit and outside, with known results."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
sys.path.append(str(Path(__file__).resolve().parents[1] / "adapters"))

import disagreements
import jax
import jax.numpy as jnp
import numpy as np
from disagreements import Framework, as_it_is
from jax_for_gpus import check_programs_for_gpus  # noqa: F401
from jax_small_programs import check_small_programs_with_uneven_rows  # noqa: F401

import byteps.jax as bps

TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8")
jax.config.update("jax_enable_x64", True)


def refused(kind: type[Exception], word: str, call: Callable[[], object]) -> None:
    """Expect an error of a kind, with a word in its text."""
    text = ""
    try:
        with bps.typed_errors():
            jax.block_until_ready(call())
    except kind as error:
        text = str(error)
    assert word in text, f"{word} is not in {text!r}"


def full(shape: Any, value: Any, dtype: Any = "float64") -> Any:
    """Return an array that JAX need not compile a program for."""
    return jnp.asarray(np.full(shape, value, jnp.dtype(dtype)))


def ones(shape: Any, dtype: Any = "float64") -> Any:
    return full(shape, 1, dtype)


def arange(end: float, dtype: Any = None) -> Any:
    return jnp.asarray(np.arange(end, dtype=dtype))


def same(found: Any, expected: Any) -> bool:
    return bool((np.asarray(found) == np.asarray(expected)).all())


def both(name: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a call results in, which must be the same in a program and outside."""
    outside = call(*arguments, name=name)
    inside = jax.jit(partial(call, name=f"{name} in jit"))(*arguments)
    for one, other in zip(jax.tree.leaves(outside), jax.tree.leaves(inside), strict=True):
        assert one.dtype == other.dtype, (name, one.dtype, other.dtype)
        assert one.shape == other.shape, (name, one.shape, other.shape)
        assert one.tolist() == other.tolist(), (name, one, other)
    return outside


def check_types(rank: int, size: int) -> None:
    mine = {dtype: full((3, 2), rank + 1, dtype) for dtype in TYPES}
    totals = both("sum", partial(bps.allreduce, op=bps.Sum), mine)
    gathered = both("rows", bps.allgather, mine)
    copied = both("copy", partial(bps.broadcast, root_rank=size - 1), mine)
    for dtype in TYPES:
        assert totals[dtype].dtype == gathered[dtype].dtype == copied[dtype].dtype == dtype
        assert same(totals[dtype], size * (size + 1) // 2), (dtype, totals)
        assert gathered[dtype][:, 0].tolist() == [r + 1 for r in range(size) for _ in range(3)]
        assert same(copied[dtype], size)
    unsigned = {kind: full((2, 2), rank + 1, kind) for kind in ("uint16", "uint32", "uint64")}
    key = jax.random.key_data(jax.random.key(rank))
    moved = both("moved", partial(bps.broadcast, root_rank=size - 1), {**unsigned, "key": key})
    rows = both("moved rows", bps.allgather, unsigned)
    dealt = both("moved to all", bps.alltoall, {k: full((size,), rank, k) for k in unsigned})
    for kind in unsigned:
        assert moved[kind].dtype == rows[kind].dtype == dealt[kind].dtype == kind
        assert same(moved[kind], size)
        assert rows[kind][:, 0].tolist() == [r + 1 for r in range(size) for _ in range(2)]
        assert dealt[kind].tolist() == list(range(size))
    assert same(moved["key"], jax.random.key_data(jax.random.key(size - 1)))
    refused(bps.InvalidArgumentError, "uint32", lambda: bps.allreduce(unsigned["uint32"]))
    if size > 1:
        odd = unsigned["uint32"] if rank == 0 else full((2, 2), 1, "int32")
        for way in (lambda call: call, jax.jit):
            call = way(partial(bps.broadcast, root_rank=0, name="odd kind"))
            refused(bps.MismatchError, "uint32", lambda call=call: call(odd))
    yes = both("any", partial(bps.allreduce, op=bps.Max), jnp.array([rank == 0]))
    assert yes.tolist() == [True]
    refused(bps.InvalidArgumentError, "complex64", lambda: bps.allreduce(jnp.complex64(1)))
    refused(bps.InvalidArgumentError, "key_data", lambda: bps.allreduce(jax.random.key(1)))
    for call in (bps.allreduce, bps.allgather, bps.alltoall, bps.reducescatter):
        refused(bps.InvalidArgumentError, "a str cannot", lambda call=call: call("text"))


def check_combinations(rank: int, size: int) -> None:
    mine = jnp.float32([rank, -rank, 1.5])
    mean = both("mean", bps.allreduce, mine)
    assert np.allclose(mean, [(size - 1) / 2, (1 - size) / 2, 1.5])
    assert both("largest", partial(bps.allreduce, op=bps.Max), mine).tolist() == [size - 1, 0, 1.5]
    assert both("least", partial(bps.allreduce, op=bps.Min), mine).tolist() == [0, 1 - size, 1.5]
    product = both("product", partial(bps.allreduce, op=bps.Product), jnp.int32([2, rank + 1]))
    assert product.tolist() == [2**size, int(np.prod(np.arange(1, size + 1)))]
    assert both("push_pull", bps.push_pull, mine).tolist() == mean.tolist()
    total = both("pushed sum", partial(bps.push_pull, average=False), mine)
    assert total.tolist() == [size * (size - 1) / 2, -size * (size - 1) / 2, 1.5 * size]


def check_averages_of_integers(rank: int, size: int) -> None:
    total = -3 * size - size * (size - 1) // 2
    cut = int(total / size)
    types = ("int8", "int16", "int32", "int64")
    mine = {dtype: jnp.array([-3 - rank, 3 + rank, -size], dtype) for dtype in types}
    for dtype, result in both("cut", bps.allreduce, mine).items():
        assert result.dtype == dtype
        assert result.tolist() == [cut, -cut, -size]
    for down in both("down", bps.push_pull, mine).values():
        assert down.tolist() == [total // size, -total // size, -size]


def check_factors(rank: int, size: int) -> None:
    options = {"op": bps.Sum, "prescale_factor": 0.5, "postscale_factor": 3.0}
    mine = {dtype: full(4, 2, dtype) for dtype in ("float32", "float16", "bfloat16", "int32")}
    for dtype, result in both("scaled", partial(bps.allreduce, **options), mine).items():
        assert result.dtype == dtype
        assert same(result, 3 * size)
    thirds = {dtype: jnp.asarray(np.arange(99), dtype) for dtype in ("float16", "bfloat16")}
    both("thirds", partial(bps.allreduce, op=bps.Max, prescale_factor=1 / 3), thirds)
    call = partial(bps.allreduce, name="bool", prescale_factor=2.0)
    refused(bps.InvalidArgumentError, "scaled", lambda: call(jnp.array([True])))
    refused(bps.InvalidArgumentError, "scaled", lambda: jax.jit(call)(jnp.array([True])))


def check_trees(rank: int, size: int) -> None:
    tree = {"w": full((2, 3), rank, jnp.float32), "none": None, "rest": (jnp.int32(rank), 1.0)}
    total = both("tree", partial(bps.allreduce, op=bps.Sum), tree)
    assert total["none"] is None
    assert same(total["w"], size * (size - 1) // 2)
    assert total["rest"][0] == size * (size - 1) // 2
    assert total["rest"][1] == size
    assert bps.allreduce({}, name="nothing") == {}
    one, two = bps.grouped_allreduce([jnp.float32(rank), np.float64(1)], name="group", op=bps.Max)
    assert (float(one), float(two)) == (size - 1, 1)
    half = bps.allreduce(tree, name="half", compression=bps.Compression.bf16, op=bps.Sum)
    assert half["w"].dtype == jnp.float32
    assert half["w"].tolist() == total["w"].tolist()


def check_groups_and_objects(rank: int, size: int) -> None:
    two = [full((2, 2), rank, jnp.float32), full((2,), rank, jnp.int32)]
    rows = both("group of rows", bps.grouped_allgather, two)
    assert [len(one) for one in rows] == [2 * size] * 2
    assert rows[1].tolist() == [r for r in range(size) for _ in range(2)]
    whole = [ones((size, 3)), ones(2 * size)]
    parts = both("group of parts", partial(bps.grouped_reducescatter, op=bps.Sum), whole)
    assert [part.tolist() for part in parts] == [[[size] * 3], [size] * 2]
    assert bps.allgather_object({"rank": rank}) == [{"rank": r} for r in range(size)]
    assert bps.broadcast_object([rank], root_rank=size - 1) == [size - 1]


def check_rows(rank: int, size: int) -> None:
    uneven = bps.allgather(full((rank, 2), rank, jnp.float32), name="uneven")
    assert uneven[:, 0].tolist() == [r for r in range(size) for _ in range(r)]
    both_sizes = bps.allgather([ones((rank, 2)), ones(3)], name="uneven tree")
    assert [rows.shape[0] for rows in both_sizes] == [size * (size - 1) // 2, 3 * size]
    assert both("numbers", bps.allgather, jnp.int64(rank)).tolist() == list(range(size))
    mine = arange(2 * size, dtype=jnp.float32) + 100 * rank
    rows = both("alltoall", bps.alltoall, mine)
    assert rows.tolist() == [100 * r + 2 * rank + i for r in range(size) for i in range(2)]
    splits = [1] * (size - 1) + [size + 1]
    rows, counts = bps.alltoall(mine, splits=splits, name="splits")
    assert counts.tolist() == [splits[rank]] * size
    call = jax.jit(partial(bps.alltoall, splits=splits, name="splits in jit"))
    refused(bps.InvalidArgumentError, "inside jit", lambda: call(mine))
    whole = arange(3.0 * (2 * size + 1)).reshape(-1, 3)  # the first rank gets one row more
    first = 2 * rank + min(rank, 1)
    expected = whole[first : first + 2 + (rank == 0)] * size
    part = both("scatter", partial(bps.reducescatter, op=bps.Sum), whole)
    assert part.tolist() == expected.tolist()
    assert np.allclose(both("scattered mean", bps.reducescatter, whole) * size, expected)
    refused(bps.InvalidArgumentError, "rows", lambda: bps.reducescatter(jnp.float32(1), name="s"))
    if size > 1:
        call = jax.jit(partial(bps.allgather, name="uneven in jit"))
        refused(bps.MismatchError, "same number of rows", lambda: call(ones(1 + rank)))


def check_derivatives(rank: int, size: int) -> None:
    x = jnp.float64([1.0 + rank, 2.0, 3.0])
    weights = jnp.float64([1.0, 10.0, 100.0])

    def loss(call: Callable[..., Any], x: Any, name: str) -> Any:
        result = call(x, name=name)
        return (result * jnp.resize(weights, result.shape)).sum()

    factors = {"prescale_factor": 2.0, "postscale_factor": 5.0}
    cases: list[tuple[str, Any, Any]] = [
        ("sum", partial(bps.allreduce, op=bps.Sum), weights * size),
        ("mean", bps.allreduce, weights),
        ("push_pull", partial(bps.push_pull, average=False), weights * size),
        ("factors", partial(bps.allreduce, op=bps.Sum, **factors), weights * size * 10),
        ("broadcast", partial(bps.broadcast, root_rank=0), weights * (rank == 0)),
        ("gather", bps.allgather, jnp.resize(weights, 3 * size)[3 * rank : 3 * rank + 3]),
    ]
    for name, call, expected in cases:
        outside = jax.grad(partial(loss, call, name=f"grad {name}"))(x)
        assert np.allclose(outside, expected), (name, outside, expected)
        inside = jax.jit(jax.grad(partial(loss, call, name=f"grad {name} in jit")))(x)
        assert np.allclose(inside, expected), (name, inside, expected)
    rows = ones((2 * size + 1, 2))
    for op, factor in ((bps.Sum, size), (bps.Average, 1)):
        call = partial(bps.reducescatter, op=op)
        found = jax.jit(jax.grad(lambda r, call=call, op=op: call(r, name=f"r {op}").sum()))(rows)
        assert found.tolist() == (rows * factor).tolist()
    given = arange(2.0 * size)
    found = jax.grad(lambda r: (bps.alltoall(r, name="a") * (rank + 1)).sum())(given)
    assert found.tolist() == [r + 1.0 for r in range(size) for _ in range(2)]
    value, change = jax.jvp(partial(bps.allreduce, op=bps.Sum, name="forward"), (x,), (x,))
    assert value.tolist() == change.tolist()
    largest = partial(loss, partial(bps.allreduce, op=bps.Max), name="max")
    refused(bps.InvalidArgumentError, "derivative", lambda: jax.grad(largest)(x))


def check_batches(rank: int, size: int) -> None:
    batch = arange(12.0).reshape(3, 4) + rank
    for axis in (0, 1):
        call = jax.vmap(partial(bps.allreduce, op=bps.Sum, name=f"v{axis}"), in_axes=axis)
        expected = (batch if axis == 0 else batch.T) * size + (size * (size - 1) / 2 - rank * size)
        assert call(batch).tolist() == expected.tolist()
        assert jax.jit(call)(batch).tolist() == expected.tolist()
        rows = jax.jit(jax.vmap(partial(bps.allgather, name=f"g{axis}"), in_axes=axis))(batch)
        moved = batch if axis == 0 else batch.T
        assert rows.shape == (moved.shape[0], size * moved.shape[1])
        assert rows[:, rank * moved.shape[1] : (rank + 1) * moved.shape[1]].tolist() == (
            moved.tolist()
        )


def check_trees_in_programs(rank: int, size: int) -> None:
    """The exchanges of a tree end together, which changes no derivative and no batch."""

    def total(tree: Any, name: str) -> Any:
        found = bps.allreduce(tree, op=bps.Sum, name=name)
        return (found["a"] * 2).sum() + (found["b"] ** 2).sum()

    tree = {"a": ones(3), "b": ones((2, 2)) * (rank + 1)}
    found = jax.jit(jax.grad(partial(total, name="tree grad")))(tree)
    ranks = size * (size + 1) // 2
    assert same(found["a"], 2 * size)
    assert same(found["b"], 2 * ranks * size)
    call = jax.jit(jax.vmap(partial(bps.allreduce, op=bps.Sum, name="tree batch")))
    found = call({"a": ones((4, 3)), "b": ones((4, 2, 2)) * (rank + 1)})
    assert found["a"].shape == (4, 3)
    assert same(found["b"], ranks)
    second = jax.jit(lambda w: jax.jvp(jax.grad(partial(total, name="tree twice")), (w,), (w,))[1])
    assert same(second(tree)["b"], 2 * ranks * size)
    odd = jax.jit(partial(bps.allreduce, op=bps.Max, name="tree of odd leaves"))
    found = odd({"none": jnp.zeros((0, 3)), "flag": jnp.array([rank == 0]), "one": tree["b"]})
    assert found["none"].shape == (0, 3)
    assert found["flag"].tolist() == [True]
    assert same(found["one"], size)
    average = jax.jit(partial(bps.push_pull, name="tree cut"))
    found = average({"a": jnp.int32([-rank]), "b": jnp.float64(rank)})
    assert float(found["b"]) == (size - 1) / 2
    text = average.lower({"a": jnp.int32([1]), "b": jnp.float64(1)}).as_text()
    assert "byteps_keep" in text


def check_calls_without_names(rank: int, size: int) -> None:
    """Ranks make other programs, but the same calls in the same order."""

    @jax.jit
    def step(x: Any) -> Any:
        results = []
        for number in range(20):
            y = x + number
            for _ in range(rank * (number % 3)):  # other work on each rank
                y = jnp.tanh(y @ jnp.eye(y.shape[0])) * 0 + y
            results.append(bps.allreduce(y, op=bps.Max))
        return results

    for _ in range(3):
        for number, result in enumerate(step(ones((30, 30)))):
            assert same(result, 1 + number)

    def loop(carry: Any, x: Any) -> Any:
        return carry + bps.allreduce(x, op=bps.Sum), x

    total, _ = jax.jit(lambda xs: jax.lax.scan(loop, jnp.zeros(2), xs))(ones((5, 2)))
    assert total.tolist() == [5.0 * size] * 2


def check_what_nobody_uses(rank: int, size: int) -> None:
    """An exchange is made also on ranks that do not look at its result."""

    @jax.jit
    def step(x: Any) -> Any:
        total = bps.allreduce(x, op=bps.Sum, name="unused")
        return total if rank == 0 else x

    for _ in range(3):
        assert step(ones(3)).tolist() == [size if rank == 0 else 1] * 3


def check_many_at_once(rank: int, size: int) -> None:
    @jax.jit
    def step(arrays: Any) -> Any:
        return bps.push_pull(arrays, average=False, name="many")

    arrays = [full((7 * n + 1,), rank, jnp.float32) for n in range(60)]
    for _ in range(5):
        for result in step(arrays):
            assert same(result, size * (size - 1) // 2)


def check_start_and_done(rank: int, size: int) -> None:
    def step(x: Any) -> Any:
        pending = bps.push_pull_start({"x": x}, average=False, name="pending")
        other = jnp.tanh(x) * 0 + 1
        return bps.push_pull_done(pending)["x"] + other

    assert step(ones(4)).tolist() == [size + 1.0] * 4
    assert jax.jit(step)(ones(4)).tolist() == [size + 1.0] * 4
    pending = bps.push_pull_start(ones(2), name="twice")
    bps.push_pull_done(pending)
    refused(bps.InvalidArgumentError, "already", lambda: bps.push_pull_done(pending))


def check_no_copy(rank: int, size: int) -> None:
    """The result is the memory that the exchange has filled."""
    from byteps.numpy import arrays

    rooms = []
    make = arrays.new_array

    def room(*arguments: Any) -> Any:
        rooms.append(make(*arguments))
        return rooms[-1]

    arrays.new_array = room
    try:
        for dtype in (jnp.float32, jnp.bfloat16):
            committed = jax.device_put(ones(1000, dtype), jax.devices("cpu")[0])
            for x in (committed, ones(1000, dtype)):
                for call in (bps.allreduce, bps.allgather, bps.reducescatter):
                    result = call(x, name="room")
                    assert result.unsafe_buffer_pointer() == rooms[-1].ctypes.data
                    assert result.committed == x.committed
                assert np.asarray(x).ctypes.data == x.unsafe_buffer_pointer()
    finally:
        arrays.new_array = make


def check_several_devices(rank: int, size: int) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))
    values = np.full(4, rank, np.float32)
    specs = (jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("devices"))
    places = [jax.sharding.NamedSharding(mesh, spec) for spec in specs]
    whole, parts = (jax.device_put(values, place) for place in places)
    total = bps.allreduce(whole, name="on two devices", op=bps.Sum)
    assert total.sharding == whole.sharding
    assert total.tolist() == [size * (size - 1) / 2] * 4
    call = partial(bps.allreduce, name="several devices")
    refused(bps.InvalidArgumentError, "in parts", lambda: call(parts))
    for array in (whole, parts):
        refused(bps.InvalidArgumentError, "one device", lambda a=array: jax.jit(call)(a))


def check_process_sets(rank: int, size: int) -> None:
    if size < 3:
        return
    pair = bps.add_process_set([0, 2])
    if pair.included():
        call = partial(bps.allreduce, op=bps.Sum, process_set=pair)
        assert both("pair", call, jnp.float32(rank + 1)).tolist() == 4
        rows = both("rows of a pair", partial(bps.allgather, process_set=pair), ones((1, 2)))
        assert rows.shape == (2, 2)
        assert jax.jit(call)(ones(2)).tolist() == [2, 2]
    else:
        call = jax.jit(partial(bps.allreduce, name="pair", process_set=pair))
        refused(bps.InvalidArgumentError, "not in the", lambda: call(ones(1)))
    assert bps.remove_process_set(pair)


def in_jit(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    program = jax.jit(function)

    def run(x: Any) -> Any:
        with bps.typed_errors():
            return jax.block_until_ready(program(x))

    return run


JAX = Framework(
    bps,
    ones=lambda shape, dtype: ones(shape, dtype),
    read=lambda result: [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(result)],
    ways={"": as_it_is, "in jit": in_jit},
    only_eager=disagreements.OF_SPLITS,
)


def check_disagreements(rank: int, size: int) -> None:
    disagreements.check(JAX)


def check_absent_names(rank: int, size: int) -> None:
    disagreements.check_absent_names(JAX)


def check_different_trees(rank: int, size: int) -> None:
    if size == 1:
        return
    odd = rank == size - 1
    trees: dict[str, Any] = {
        "tree": [ones(2)] * (2 + odd),
        "keys": {"a": 1.0, "c" if odd else "b": 2.0},
        "shapes": [ones(2), ones(2 + odd)],
    }
    for name, tree in trees.items():
        call = partial(bps.allreduce, tree, name=f"bad {name}")
        refused(bps.MismatchError, "rank", call)
        refused(bps.MismatchError, "rank", jax.jit(call))
        # The name is free again.
        assert bps.allreduce(ones(1), name=f"bad {name}").tolist() == [1.0]


def check_bad_calls(rank: int, size: int) -> None:
    x = ones(2)
    for call in (bps.allreduce, jax.jit(lambda x: bps.allreduce(x, op="sum", name="op"))):
        refused(
            ValueError,
            "op is",
            lambda call=call: call(x, op="sum") if call is bps.allreduce else call(x),
        )
    taken = bps.push_pull_start(x, name="taken")
    refused(bps.DuplicateNameError, "taken", lambda: bps.push_pull(x, name="taken"))
    refused(
        bps.DuplicateNameError, "taken", lambda: jax.jit(partial(bps.push_pull, name="taken"))(x)
    )
    bps.push_pull_done(taken)


def check_joined_ranks(rank: int, size: int) -> None:
    @jax.jit
    def step(x: Any) -> Any:
        return bps.allreduce(x, name="joined"), bps.allreduce(x, op=bps.Sum, name="joined sum")

    for number in range(rank + 1):  # the last rank makes most steps
        mean, total = step(ones(2))
        assert np.allclose(total, size - number), (total, number)
        assert np.allclose(mean, (size - number) / size)
    assert bps.join() == size - 1


def check_weights(rank: int, size: int) -> None:
    weights = {"w": full((2, 2), rank, jnp.bfloat16), "b": [arange(3) + rank, None]}
    if size > 1:
        refused(bps.ReplicasDifferError, "differ", lambda: bps.check_replicas(weights))
    weights = bps.broadcast_parameters(weights, root_rank=0)
    assert weights["w"].tolist() == [[0, 0], [0, 0]]
    assert weights["b"][0].tolist() == [0, 1, 2]
    bps.check_replicas(weights)


def check_one_session_after_another(rank: int, size: int) -> None:
    """A compiled program works on in a later session."""
    step = jax.jit(partial(bps.allreduce, name="later", op=bps.Sum))
    assert step(ones(2)).tolist() == [size] * 2
    bps.barrier(name="before the next session")
    bps.shutdown()
    refused(bps.NotInitializedError, "init", lambda: bps.allreduce(ones(2)))
    refused(bps.BytepsError, "bps.init()", lambda: step(ones(2)))
    bps.init()
    assert step(ones(2)).tolist() == [size] * 2


def main() -> None:
    only = sys.argv[1:]
    bps.init()
    rank, size = bps.rank(), bps.size()
    for name, check in list(globals().items()):
        if name.startswith("check_") and (not only or name in only):
            if os.environ.get("TEST_VERBOSE"):
                print(name, flush=True)
            check(rank, size)
            bps.barrier(name=f"after {name}")
    bps.shutdown()
    print(f"all right {rank}/{size}")


main()
