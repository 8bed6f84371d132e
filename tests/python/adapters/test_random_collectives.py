"""Random collective operations: what makes them and judges them, and short runs of them."""

from __future__ import annotations

import functools
from pathlib import Path

import job_runs
import numpy as np
import pytest
from random_collectives import cases, lane
from random_collectives.cases import ADAPTERS, Call, Case, Tensor, make_case
from random_collectives.driver import Given, Got
from random_collectives.layouts import _LAYOUTS, Laid
from random_collectives.oracle import Expected, Oracle, combine, difference, scale
from random_collectives.values import narrowed, values_of, widened
from random_operations import wrong_in_call

SINGLE = tuple((rank,) for rank in range(4))
SEED = 42

needs_a_job = pytest.mark.skipif(
    bool(job_runs.what_is_missing("torch")), reason="byteps and torch are not installed"
)


@functools.cache
def some_cases(adapter: str, size: int = 3, count: int = 600) -> list[Case]:
    return [make_case(SEED, number, adapter, size) for number in range(count)]


# The cases.


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_cases_have_everything_that_an_adapter_can_do(adapter) -> None:
    calls = [call for case in some_cases(adapter) for call in case.calls]
    able = ADAPTERS[adapter]
    assert {call.kind for call in calls} == set(able.kinds)
    assert {call.op for call in calls} - {""} == set(able.ops)
    tensors = [tensor for call in calls for tensor in call.tensors]
    assert {tensor.layout for tensor in tensors} == set(able.layouts)
    types = {tensor.dtype for tensor in tensors}
    assert types == {*cases.SUMMED, *able.moved}
    assert {call.kind for call in calls if call.in_place} == set(able.in_place)
    assert {call.kind for call in calls if call.is_group} == set(able.grouped)
    assert {len(call.ranks) for call in calls} == {1, 2, 3}
    sizes = [np.prod(shape, dtype=int) for t in tensors for shape in t.shapes]
    assert min(sizes) == 0
    assert max(sizes) > 100_000
    assert any(shape == () for tensor in tensors for shape in tensor.shapes)
    if able.joins:
        assert any(case.leaving for case in some_cases(adapter))


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_ranks_make_the_calls_that_they_are_in_and_count_alike(adapter) -> None:
    for case in some_cases(adapter, size=4, count=300):
        names = [call.name for call in case.calls if call.name is not None]
        assert len(set(names)) == len(names)
        counted = [i for i, call in enumerate(case.calls) if call.name is None]
        for rank in range(4):
            mine = [i for i in range(len(case.calls)) if rank in case.there(i)]
            order = case.orders[rank]
            assert sorted(order) == mine
            assert [i for i in order if i in counted] == [i for i in counted if i in mine]
            assert sorted(case.waits[rank]) == mine


def test_orders_differ_between_ranks_where_they_may() -> None:
    for adapter, differ in (("numpy", True), ("c10d", False)):
        found = any(
            len({tuple(i for i in order if len(case.calls[i].ranks) == 3) for order in case.orders})
            > 1
            for case in some_cases(adapter)
            if not case.leaving
        )
        assert found is differ


def test_a_case_is_the_same_each_time_and_another_with_another_seed() -> None:
    assert make_case(1, 2, "torch", 3) == make_case(1, 2, "torch", 3)
    assert make_case(1, 2, "torch", 3) != make_case(2, 2, "torch", 3)
    one = Tensor("float32", ((5,), (5,)), "random")
    values = values_of((1, 2, 0, 0), one, 0, "sum")
    assert values.tolist() == values_of((1, 2, 0, 0), one, 0, "sum").tolist()
    assert values.tolist() != values_of((1, 2, 0, 0), one, 1, "sum").tolist()


# What is right.


def float16(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float16)


def alone(*parts: np.ndarray) -> list[dict[int, np.ndarray]]:
    """Ranks that are contributions of their own."""
    return [{rank: part} for rank, part in enumerate(parts)]


def test_sums_are_made_in_the_tree_over_ranks() -> None:
    large, one, small = (np.array([x], np.float32) for x in (1e8, 1.0, -1e8))
    assert combine("sum", "float32", alone(large, one, small), 3).tolist() == [0.0]
    assert combine("sum", "float32", alone(large, small, one), 3).tolist() == [1.0]
    assert combine("sum", "float32", alone(one, large, small, one), 4).tolist() == [0.0]
    ranks = [{1: large}, {2: small}, {3: one}]  # ranks 2 and 3 are a node, and 1 and 2 are none
    assert combine("sum", "float32", ranks, 3).tolist() == [0.0]
    machines = [{0: large, 1: small}, {2: one, 3: one}]
    assert combine("sum", "float32", machines, 4).tolist() == [2.0]


def test_halves_are_added_in_float32_and_machines_round_their_sums() -> None:
    parts = [float16(2048), float16(1), float16(1)]
    assert combine("sum", "float16", alone(*parts), 3) == [2050]
    machines = [{0: parts[0], 1: parts[1]}, {2: parts[2]}]
    assert combine("sum", "float16", machines, 3) == [2048]  # 2049 has no float16
    assert combine("average", "float16", [dict(enumerate(parts))], 3) == float16(2050 / 3)


def test_averages_of_integers_are_rounded_down_or_cut() -> None:
    parts = alone(np.array([-3, 3], np.int8), np.array([-4, 4], np.int8))
    assert combine("average", "int8", parts, 2).tolist() == [-4, 3]
    assert combine("average", "int8", parts, 2, toward_zero=True).tolist() == [-3, 3]
    most = alone(*[np.array([127], np.int8)] * 3)
    assert combine("average", "int8", most, 3).tolist() == [127]
    assert combine("sum", "int8", most, 3).tolist() == [125]  # modulo 256


def test_extremes_know_nan_and_two_zeros() -> None:
    parts = alone(np.array([0.0, 1.0, -0.0]), np.array([-0.0, np.nan, 0.0]))
    least, most = (combine(op, "float64", parts, 2) for op in ("min", "max"))
    assert np.signbit(least).tolist()[0::2] == [True, True]
    assert np.signbit(most).tolist()[0::2] == [False, False]
    assert np.isnan(least[1])
    assert np.isnan(most[1])


def test_bool_is_or_and_and() -> None:
    parts = alone(np.array([True, False, True]), np.array([True, False, False]))
    for op in ("sum", "average", "max"):
        assert combine(op, "bool", parts, 2).tolist() == [True, False, True]
    for op in ("product", "min"):
        assert combine(op, "bool", parts, 2).tolist() == [True, False, False]
    assert combine("bxor", "bool", parts, 2).tolist() == [False, False, True]


def test_bfloat16_is_rounded_as_torch_does() -> None:
    torch = pytest.importorskip("torch")
    bits = np.random.default_rng(0).integers(0, 2**32, 3000, dtype=np.uint32)
    numbers = bits.view(np.float32)[~np.isnan(bits.view(np.float32))]
    rounded = torch.from_numpy(numbers.copy()).to(torch.bfloat16)
    assert narrowed(numbers, "bfloat16").tolist() == [
        n % 65536 for n in rounded.view(torch.int16).tolist()
    ]
    assert widened(narrowed(numbers, "bfloat16"), "bfloat16").tolist() == rounded.tolist()
    number = np.array(1.0, np.float32)
    assert narrowed(number, "bfloat16").shape == ()


def test_factors() -> None:
    assert scale(np.array([-3, 3], np.int16), "int16", 0.5).tolist() == [-1, 1]
    third = scale(float16(1.0), "float16", 1 / 3)
    assert third == float16(np.float32(1) * np.float32(1 / 3))


def expected(call: Call, rank: int) -> Expected:
    case = Case(0, (call,))
    return Oracle(SEED, SINGLE).expected(case, 0, rank)


def test_rows() -> None:
    ranks = (0, 1, 3)
    rows = Tensor("int32", ((2, 2), (0, 2), (1, 2)))
    inputs = [values_of((SEED, 0, 0, 0), rows, place, "") for place in range(3)]
    found = expected(Call("allgather", ranks, (rows,)), 1).tensors[0]
    assert found.tolist() == np.concatenate(inputs).tolist()
    splits = ((1, 0, 1), (0, 0, 0), (0, 1, 0))
    sent = expected(Call("alltoall", ranks, (rows,), splits=splits), 3)
    assert sent.counts == (1, 0, 0)
    assert sent.tensors[0].tolist() == inputs[0][1:].tolist()
    whole = Tensor("int32", ((4, 1),) * 3)
    inputs = [values_of((SEED, 0, 0, 0), whole, place, "sum") for place in range(3)]
    part = expected(Call("reducescatter", ranks, (whole,), "sum"), 0).tensors[0]
    assert part.tolist() == np.sum(inputs, axis=0)[:2].tolist()
    copy = expected(Call("broadcast", ranks, (whole,), root=3), 0).tensors[0]
    assert copy.tolist() == values_of((SEED, 0, 0, 0), whole, 2, "").tolist()


def test_ranks_that_have_joined_bring_nothing_and_count_in_averages() -> None:
    whole = Tensor("float64", ((2,),) * 4)
    case = Case(0, (Call("allreduce", (0, 1, 2, 3), (whole,), "average"),), leaving=(1, 0, 1, 0))
    inputs = [values_of((SEED, 0, 0, 0), whole, place, "average") for place in (0, 2)]
    found = Oracle(SEED, SINGLE).expected(case, 0, 2).tensors[0]
    assert found.tolist() == (np.add(*inputs) / 4).tolist()


# What is wrong is seen.


def test_every_bit_counts_but_those_of_nan() -> None:
    one = np.array([1.0, np.nan, 0.0], np.float32)
    assert difference(one, one.copy(), "float32") == ""
    other_nan = one.copy()
    other_nan.view(np.uint32)[1] += 1
    assert difference(other_nan, one, "float32") == ""
    assert "1 of 3" in difference(np.array([1.0, np.nan, -0.0], np.float32), one, "float32")
    assert "float64" in difference(one.astype(np.float64), one, "float32")
    assert "[3]" in difference(one.reshape(3, 1), one, "float32")
    assert difference(np.empty((0, 3)), np.empty((0, 3)), "float64") == ""


@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.bool_])
def test_layouts_have_the_values_and_show_damage(layout, shape, dtype) -> None:
    values = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(dtype)
    laid = Laid.of(values, layout)
    assert laid.view.shape == shape
    assert (laid.view == values).all()
    assert laid.damage(in_place=False) == ""
    if layout == "fixed":
        assert not laid.view.flags.writeable
        return
    laid.view[...] = values.astype(bool) ^ True
    if values.size:
        assert "input was written" in laid.damage(in_place=False)
    assert laid.damage(in_place=True) == ""
    if layout in ("strided", "offset", "unaligned") and laid._base.size:
        laid._base.reshape(-1)[0] = 0
        assert "beside" in laid.damage(in_place=True)


def test_a_wrong_result_of_a_call_is_seen() -> None:
    call = Call("allreduce", (0, 1), (Tensor("int32", ((3,), (3,))),), "sum")
    case, oracle = Case(0, (call,)), Oracle(SEED, SINGLE)
    right = oracle.expected(case, 0, 1).tensors[0]
    given = Given(call, [Laid.of(oracle.inputs(case, 0, 1)[0], "plain")])

    def seen(got: Got) -> str:
        return wrong_in_call(oracle, case, 0, 1, given, got)

    assert seen(Got([right])) == ""
    assert "1 of 3 elements differ" in seen(Got([right + np.array([0, 0, 1], np.int32)]))
    assert "0 tensors came, not 1" in seen(Got())
    assert "object" in seen(Got([right], value=1))
    given.laid[0].view[0] += 1
    assert "input was written" in seen(Got([right]))


def test_cases_that_did_not_run_and_other_bits_are_counted(capsys) -> None:
    share = lane.Share("torch", lane.Shape.of("2"), 10, 14)
    ranks = [{10: {"0": "aa"}, 11: {"0": "bb"}, 12: {}}, {10: {"0": "aa"}, 11: {"0": "bc"}}]
    assert lane.account(share, 10, ranks, SEED) == 13  # the job ended in case 12
    assert set(share.wrong) == {11}
    assert share.done == 2
    told = capsys.readouterr().out
    assert "other bits" in told
    assert "--adapters torch --jobs 2 --seed 42 --case 11" in told
    found = lane.report([share], SEED)
    assert (found["cases"], found["wrong"], found["not_run"]) == (4, 1, 2)


def test_texts_of_jobs() -> None:
    one = lane.Shape.of("2,1+3")
    assert (one.sizes, one.servers, one.size) == ((2, 1), 3, 3)
    assert one.contributions() == [[0, 1], [2]]
    assert lane.Shape.of("3").contributions() == [[0], [1], [2]]
    assert lane.Shape.of("3+2").contributions() == [[0, 1, 2]]
    assert lane.Shape.of("3+2/alone").contributions() == [[0], [1], [2]]
    with pytest.raises(Exception, match="no job"):
        lane.Shape.of("3x2")


def test_all_cases_are_dealt() -> None:
    shapes = [lane.Shape.of(text) for text in lane.JOBS]
    shares = lane.shares_of(["numpy", "torch"], shapes, 100, None)
    assert sum(share.cases for share in shares) == 100
    assert max(s.cases for s in shares) - min(s.cases for s in shares) == 1


# Short runs; `./dev lane collectives` has long ones.


@needs_a_job
@pytest.mark.parametrize(
    ("adapter", "shape", "count"),
    [("numpy", "3+2/alone", 120), ("torch", "2,2+1", 60), ("c10d", "3", 120)],
)
def test_random_operations(adapter, shape, count, tmp_path) -> None:
    file = tmp_path / "report.json"
    options = ["--adapters", adapter, "--jobs", shape, "--cases", str(count)]
    code = lane.run([*options, "--seed", str(SEED), "--report", str(file)])
    assert code == 0, Path(file).read_text()
