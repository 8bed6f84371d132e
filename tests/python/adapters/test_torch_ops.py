"""Operations on torch tensors, against a native module of pure Python."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import byteps.torch as bps  # noqa: E402
from byteps.common.errors import DuplicateNameError, PeerLostError, ShutdownError  # noqa: E402
from byteps.common.session import default  # noqa: E402
from byteps.common.types import DataType, Operation  # noqa: E402

pytestmark = pytest.mark.usefixtures("initialized")


def signature(function) -> str:
    parameters = inspect.signature(function).parameters.values()
    return ", ".join(p.name if p.default is p.empty else f"{p.name}={text(p)}" for p in parameters)


def text(parameter) -> str:
    if isinstance(parameter.default, bps.ProcessSet):
        return repr(parameter.default)
    return str(getattr(parameter.default, "__name__", parameter.default))


def test_signatures_are_those_of_the_contract() -> None:
    forms = "tensor, average=True, name=None, version=0, priority=0"
    assert signature(bps.push_pull) == forms + ", compression=NoneCompressor"
    for function in (
        bps.push_pull_async,
        bps.push_pull_async_inplace,
        bps.push_pull_inplace,
        bps.push_pull_group_sync_inplace,
    ):
        assert signature(function) == forms
    assert bps.byteps_push_pull is bps.push_pull_async_inplace
    reducing = (
        "tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, "
        "process_set=global_process_set"
    )
    whole = reducing.replace("name=None, ", "name=None, compression=NoneCompressor, ")
    assert signature(bps.allreduce) == whole
    assert signature(bps.grouped_allreduce) == whole.replace("tensor,", "tensors,")
    for function in (bps.allreduce_async, bps.allreduce_, bps.allreduce_async_):
        assert signature(function) == reducing
    for function in (
        bps.grouped_allreduce_async,
        bps.grouped_allreduce_,
        bps.grouped_allreduce_async_,
    ):
        assert signature(function) == reducing.replace("tensor,", "tensors,")
    everybody = "process_set=global_process_set"
    for function in (bps.allgather, bps.allgather_async):
        assert signature(function) == f"tensor, name=None, {everybody}"
    for function in (bps.broadcast, bps.broadcast_, bps.broadcast_async, bps.broadcast_async_):
        assert signature(function) == f"tensor, root_rank, name=None, {everybody}"
    assert signature(bps.broadcast_parameters) == (
        f"params, root_rank, prefix=Parameter., {everybody}"
    )
    assert signature(bps.broadcast_object) == f"obj, root_rank=0, name=None, {everybody}"
    assert signature(bps.allgather_object) == f"obj, name=None, {everybody}"
    assert signature(bps.DistributedOptimizer) == (
        "optimizer, named_parameters=None, compression=NoneCompressor, backward_passes_per_step=1, "
        "op=ReduceOp.AVERAGE, gradient_predivide_factor=1.0, num_groups=0, groups=None, "
        f"sparse_as_dense=False, {everybody}"
    )


PUBLIC = [name for name in bps.__all__ if callable(getattr(bps, name))]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example(name) -> None:
    item = getattr(bps, name)
    text = inspect.getdoc(item)
    assert text
    if isinstance(item, type) and issubclass(item, Exception) and item is not bps.BytepsError:
        return
    examples = re.findall(r"Example::\n\n((?:    .*\n?|\n)+)", text)
    assert examples, f"{name} has no example"
    for example in examples:
        ast.parse(textwrap.dedent(example))


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (torch.float32, DataType.FLOAT32),
        (torch.float64, DataType.FLOAT64),
        (torch.float16, DataType.FLOAT16),
        (torch.int8, DataType.INT8),
        (torch.int16, DataType.INT16),
        (torch.int32, DataType.INT32),
        (torch.int64, DataType.INT64),
        (torch.uint8, DataType.UINT8),
        (torch.bool, DataType.BOOL),
    ],
)
def test_sum_of_every_type(core, dtype, number) -> None:
    tensor = torch.ones(3, 2).to(dtype)
    result = bps.push_pull(tensor, average=False, name="t")
    assert core.started[0].dtype == number
    assert core.started[0].operation == Operation.SUM
    assert result.dtype == dtype
    assert torch.equal(result, torch.full((3, 2), 2).to(dtype))
    assert torch.equal(tensor, torch.ones(3, 2).to(dtype))


def test_bfloat16_is_passed_as_such(core) -> None:
    tensor = torch.ones(2, dtype=torch.bfloat16)
    assert torch.equal(bps.push_pull(tensor, name="t"), tensor)
    assert core.started[0].dtype == DataType.BFLOAT16


def test_average_is_decided_by_the_servers(core) -> None:
    bps.push_pull(torch.ones(2), name="t")
    assert core.started[0].operation == Operation.AVERAGE


def test_in_place_and_out_of_place() -> None:
    tensor = torch.tensor([1.0, 2.0])
    out = bps.synchronize(bps.push_pull_async(tensor, average=False))
    assert tensor.tolist() == [1.0, 2.0]
    assert out.tolist() == [2.0, 4.0]
    assert bps.push_pull_inplace(tensor, average=False) is tensor
    assert tensor.tolist() == [2.0, 4.0]


def test_zero_size_and_no_dimensions() -> None:
    assert bps.push_pull(torch.empty(0, 3), name="empty").shape == (0, 3)
    assert bps.push_pull(torch.tensor(3.0), average=False, name="scalar").item() == 6.0


def test_names(core) -> None:
    bps.push_pull(torch.ones(1), name="mine")
    bps.synchronize(bps.push_pull_async(torch.ones(1)))
    bps.synchronize(bps.push_pull_async_inplace(torch.ones(1)))
    bps.broadcast(torch.ones(1), 0)
    bps.barrier()
    assert core.names() == [
        "byteps.mine",
        "byteps.noname.1",
        "byteps.noname.2",
        "byteps.noname.3",
        "byteps.noname.4",
    ]
    assert bps.declare("early") == 0
    assert core.declared == ["byteps.early"]


def test_push_pull_without_a_name_is_an_assertion_error() -> None:
    with pytest.raises(AssertionError):
        bps.push_pull(torch.ones(1))


def test_tensors_that_cannot_be_exchanged() -> None:
    with pytest.raises(bps.InvalidArgumentError, match=r"^Tensor type .* is not supported\."):
        bps.push_pull(torch.ones(2, dtype=torch.complex64), name="t")
    with pytest.raises(bps.InvalidArgumentError, match="sparse_allreduce_async"):
        bps.push_pull_async(torch.eye(2).to_sparse())
    with pytest.raises(bps.InvalidArgumentError, match=r"clone\(\)"):
        bps.push_pull_inplace(torch.ones(1).expand(3))
    with pytest.raises(bps.InvalidArgumentError, match="bool tensor cannot be scaled"):
        bps.allreduce(torch.ones(1, dtype=torch.bool), op=bps.Sum, prescale_factor=0.5)
    assert issubclass(bps.InvalidArgumentError, ValueError)


@pytest.mark.filterwarnings("ignore")  # torch calls some of these a prototype
def test_tensors_that_are_no_plain_array_are_refused_in_words() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for tensor, text in (
        (torch.eye(2).to_sparse_csr(), r"float32 of layout torch\.sparse_csr .*to_dense\(\)"),
        (torch.eye(2).to(torch.complex64).to_sparse_csr(), "complex64 of layout .*Types: float32"),
        (nested, r"nested torch\.float32 is not supported.*to_padded_tensor"),
        (torch.ones(2, device="meta"), "on the meta device has no values"),
    ):
        for call in (bps.push_pull_async, bps.broadcast_async_, bps.allgather_async):
            with pytest.raises(bps.InvalidArgumentError, match=text):
                call(tensor, **({"root_rank": 0} if call is bps.broadcast_async_ else {}))
        with pytest.raises(bps.InvalidArgumentError, match=text):
            bps.broadcast_parameters({"weight": tensor}, root_rank=0)


@pytest.mark.parametrize("priority", [1 << 31, -(1 << 31) - 1, 1 << 70, 1.5, "high", None])
def test_a_priority_that_is_none_is_refused(core, priority) -> None:
    with pytest.raises(bps.InvalidArgumentError, match=r"priority is .* whole number from -2147"):
        bps.push_pull_async(torch.ones(1), name="t", priority=priority)
    assert core.started == []


def test_priorities_of_all_whole_numbers(core) -> None:
    for number, priority in enumerate((torch.tensor(3), True, -(1 << 31), (1 << 31) - 1)):
        bps.push_pull_async(torch.ones(1), name=f"{number}", priority=priority)
    found = [item.priority for item in core.started]
    assert found == [3, 1, -(1 << 31), (1 << 31) - 1]
    assert all(isinstance(priority, int) for priority in found)


@pytest.mark.parametrize("name", [5, b"name", "\udcff"])
def test_what_is_no_name_is_refused(core, name) -> None:
    for call in (bps.declare, lambda name: bps.push_pull_async(torch.ones(1), name=name)):
        with pytest.raises(bps.InvalidArgumentError, match=r"name is .*(must be a text|UTF-8)"):
            call(name)
    assert (core.declared, core.started) == ([], [])


def test_handles_rise_and_are_cleared() -> None:
    first = bps.push_pull_async(torch.ones(1))
    second = bps.push_pull_async(torch.ones(1))
    assert 0 < first < second
    assert not bps.poll(first)
    bps.synchronize(first)
    with pytest.raises(ValueError, match=f"^Handle {first} was not created or has been cleared"):
        bps.poll(first)
    assert bps.synchronize(first) is None
    bps.shutdown()
    bps.init()
    assert bps.push_pull_async(torch.ones(1)) > second


def test_a_failed_operation_raises_once_and_clears_its_handle(core) -> None:
    core.failing["byteps.t"] = PeerLostError.code
    handle = bps.push_pull_async(torch.ones(1), name="t")
    with pytest.raises(PeerLostError):
        bps.synchronize(handle)
    assert bps.synchronize(handle) is None


def test_a_handle_knows_who_is_in_the_result(core) -> None:
    handle = bps.push_pull_async(torch.ones(2), name="t")
    for ask in (lambda: handle.members, lambda: bps.members_of(handle)):
        with pytest.raises(ValueError, match="on its way"):
            ask()
    assert bps.members() == [0, 1]
    core.lost.add(1)
    bps.synchronize(handle)
    assert handle.members == bps.members_of(handle) == bps.members() == [0]
    core.lost.clear()
    assert handle.members == [0]  # of then, not of now
    with pytest.raises(ValueError, match="cleared"):
        bps.members_of(int(handle))


def test_nobody_is_in_the_result_of_a_failed_operation(core) -> None:
    core.failing["byteps.t"] = PeerLostError.code
    handle = bps.push_pull_async(torch.ones(2), name="t")
    with pytest.raises(PeerLostError):
        bps.synchronize(handle)
    assert handle.members == []


def test_a_name_in_flight_is_refused() -> None:
    bps.push_pull_async(torch.ones(1), name="t")
    with pytest.raises(DuplicateNameError):
        bps.push_pull_async(torch.ones(1), name="t")


def test_operations_need_init() -> None:
    session = bps.push_pull_async(torch.ones(1))
    bps.shutdown()
    with pytest.raises(RuntimeError, match=r"use bps\.init"):
        bps.push_pull_async(torch.ones(1))
    assert bps.synchronize(session) is not None


def test_shutdown_error_has_its_type(core) -> None:
    core.failing["byteps.t"] = ShutdownError.code
    with pytest.raises(ShutdownError):
        bps.push_pull(torch.ones(1), name="t")


@pytest.mark.parametrize(("average", "expected"), [(True, 3.0), (False, 6.0)])
def test_the_gradient_is_the_push_pull_of_the_gradient(core, average, expected) -> None:
    tensor = torch.ones(2, requires_grad=True)
    (bps.push_pull(tensor, average=average, name="t") * 3).sum().backward()
    assert tensor.grad.tolist() == [expected, expected]
    assert core.started[0].operation == core.started[1].operation
    assert core.names()[0] != core.names()[1]


def test_fp16_compression_keeps_the_type(core) -> None:
    result = bps.push_pull(torch.ones(2), name="t", compression=bps.Compression.fp16)
    assert core.started[0].dtype == DataType.FLOAT16
    assert result.dtype == torch.float32
    numbers = bps.push_pull(torch.ones(2).int(), name="i", compression=bps.Compression.fp16)
    assert numbers.dtype == torch.int32


def test_group_count_wraps() -> None:
    bps.byteps_torch_set_num_grads(2)
    places = [bps.push_pull_group_sync_inplace(torch.ones(1))[1] for _ in range(5)]
    assert places == [1, 2, 1, 2, 1]


def test_allgather() -> None:
    rows = torch.arange(6).reshape(3, 2)
    assert torch.equal(bps.allgather(rows), torch.cat([rows, rows]))
    assert bps.allgather(torch.tensor(5)).tolist() == [5, 5]


def test_broadcast_checks_the_root() -> None:
    with pytest.raises(bps.InvalidArgumentError, match="root_rank is 2"):
        bps.broadcast(torch.ones(1), 2)
    with pytest.raises(bps.InvalidArgumentError, match="root_rank is None; it must be a whole"):
        bps.broadcast(torch.ones(1), None)
    numpy = pytest.importorskip("numpy")
    assert bps.broadcast(torch.ones(1), numpy.int64(1)).tolist() == [1.0]


def test_what_is_no_tensor_says_so() -> None:
    for call in (bps.allreduce, bps.allgather, bps.alltoall, bps.reducescatter, bps.push_pull):
        for thing in ([1.0], 1.0, None):
            with pytest.raises(bps.InvalidArgumentError, match="take tensors of torch"):
                call(thing, name="thing")
    with pytest.raises(bps.InvalidArgumentError, match="sparse COO tensors; this one is list"):
        bps.sparse_allreduce_async([1.0])


def test_a_group_that_cannot_be_scaled_is_refused_before_it_is_sent() -> None:
    for call in (bps.grouped_allreduce_, bps.grouped_reducescatter):
        tensors = [torch.ones(2), torch.ones(2, dtype=torch.bool)]
        with pytest.raises(bps.InvalidArgumentError, match="bool tensor cannot be scaled"):
            call(tensors, name="group", op=bps.Sum, postscale_factor=2.0)
        assert tensors[0].tolist() == [1.0, 1.0]


def test_parameters_that_cannot_be_broadcast_leave_nothing_behind() -> None:
    good, bad = torch.zeros(2), torch.zeros(2, dtype=torch.complex64)
    for named in ({"a": good, "b": bad}, [("a", good), ("a", good)]):
        with pytest.raises(bps.InvalidArgumentError):
            bps.broadcast_parameters(named, root_rank=0)
    bps.broadcast_parameters({"a": good}, root_rank=0)


def test_a_sparse_average_counts_who_was_lost_since(monkeypatch) -> None:
    get = bps.sparse_allreduce_async(torch.eye(2).to_sparse(), name="rows")
    monkeypatch.setattr(type(default.current()), "members", lambda _: [0])
    assert torch.equal(get().to_dense(), torch.eye(2))


def test_what_is_no_process_set() -> None:
    for call in (bps.allreduce, bps.reducescatter, bps.alltoall, bps.allgather):
        with pytest.raises(bps.InvalidArgumentError, match=r"process_set is \[0, 1\]"):
            call(torch.ones(2), process_set=[0, 1])
        with pytest.raises(bps.InvalidArgumentError, match="name is 5; it must be a text"):
            call(torch.ones(2), name=5)


def test_autograd_refuses_what_was_changed_in_place() -> None:
    for change in (
        bps.allreduce_,
        bps.push_pull_inplace,
        lambda t, name: bps.broadcast_(t, 1, name),
    ):
        tensor = torch.ones(3, requires_grad=True)
        doubled = tensor * 2
        result = (doubled * doubled).sum()
        change(doubled, name="changed")
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.backward()
    with torch.inference_mode():
        assert bps.allreduce_(torch.ones(2), name="of inference", op=bps.Sum).tolist() == [2, 2]


def test_buffers_may_be_broadcast_between_two_forwards_and_backward() -> None:
    from byteps.torch.parallel import DistributedDataParallel

    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    )
    first, second = model(torch.rand(4, 2)), model(torch.rand(4, 2))
    (first.pow(2).sum() + second.pow(3).sum()).backward()
    assert model.module[0].weight.grad is not None


def test_broadcast_parameters_walks_dicts_in_order_of_names(core) -> None:
    weight = torch.arange(6.0).reshape(2, 3).t()
    bps.broadcast_parameters({"b": torch.ones(1), "a": weight, "c": None}, root_rank=0)
    assert core.names()[1:] == ["byteps.Parameter.a", "byteps.Parameter.b"]
    assert core.started[0].detail == "device cpu; root 0; 2 tensors: a, b"
    assert torch.equal(weight, torch.arange(6.0).reshape(2, 3).t())
    with pytest.raises(ValueError, match="invalid params of type"):
        bps.broadcast_parameters(iter([]), root_rank=0)


def test_broadcast_object_of_two_lengths_under_one_name(core) -> None:
    assert bps.broadcast_object("short", name="o") == "short"
    assert bps.broadcast_object("longer than that", name="o") == "longer than that"
    assert core.names() == ["byteps.Object.o"] * 2


def test_optimizer_state_is_taken_apart_and_put_together() -> None:
    from byteps.torch.initial_state import _put_in, _take_out

    tree = {"a": [torch.ones(2), 3, None], "b": {"c": torch.zeros(1), "d": "text"}}
    tensors = []
    again = []
    rebuilt = _put_in(_take_out(tree, tensors), again)
    assert [t.shape for t in tensors] == [t.shape for t in again] == [(2,), (1,)]
    assert rebuilt["a"][0] is again[0]
    assert rebuilt["a"][1:] == [3, None]
    assert rebuilt["b"]["d"] == "text"


def test_broadcast_optimizer_state_refuses_lbfgs() -> None:
    parameters = [torch.nn.Parameter(torch.ones(1))]
    with pytest.raises(ValueError, match=r"^cannot broadcast torch\.optim\.LBFGS state$"):
        bps.broadcast_optimizer_state(torch.optim.LBFGS(parameters), root_rank=0)
    bps.broadcast_optimizer_state(torch.optim.SGD(parameters, lr=0.1), root_rank=0)
