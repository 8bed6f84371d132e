"""The signatures of byteps.mxnet are those of the contract."""

from __future__ import annotations

from contract import expect_signatures

_SET = "process_set=everybody"
_FACTORS = "prescale_factor=1.0, postscale_factor=1.0"
_REDUCED = f"average=None, name=None, priority=0, {_FACTORS}, {_SET}, op=None"
_MOVED = f"name=None, priority=0, {_SET}"

MXNET = {
    "byteps_declare_tensor": "name",
    "byteps_push_pull": "tensor, version=0, priority=0, name=None, is_average=True",
    "allreduce": f"tensor, {_REDUCED}",
    "allreduce_": f"tensor, {_REDUCED}",
    "grouped_allreduce": f"tensors, {_REDUCED}",
    "grouped_allreduce_": f"tensors, {_REDUCED}",
    "allgather": f"tensor, {_MOVED}",
    "grouped_allgather": f"tensors, {_MOVED}",
    "broadcast": f"tensor, root_rank, {_MOVED}",
    "broadcast_": f"tensor, root_rank, {_MOVED}",
    "alltoall": f"tensor, splits=None, {_MOVED}",
    "reducescatter": f"tensor, op=Average, {_MOVED}, {_FACTORS}",
    "grouped_reducescatter": f"tensors, op=Average, {_MOVED}, {_FACTORS}",
    "broadcast_object": "obj, root_rank=0, name=None",
    "allgather_object": "obj, name=None",
    "broadcast_parameters": "params, root_rank=0, prefix=None",
    "DistributedOptimizer": f"optimizer, gradient_predivide_factor=1.0, num_groups=0, {_SET}",
    "DistributedTrainer": "params, optimizer, optimizer_params=None, compression=none, "
    f"gradient_predivide_factor=1.0, prefix=None, num_groups=0, {_SET}",
}


def test_signatures_of_mxnet_are_those_of_the_contract() -> None:
    import byteps.mxnet as bps

    expect_signatures(bps, MXNET, none=bps.Compression.none)
