"""The signatures of byteps.tensorflow and of both modules for Keras are those of the contract."""

from __future__ import annotations

import importlib.util

import pytest
from contract import expect_signatures

_DENSE = "device_dense=''"
_DEVICES = f"{_DENSE}, device_sparse=''"
_SET = "process_set=everybody"
_FACTORS = "prescale_factor=1.0, postscale_factor=1.0"
_SCOPE = "ignore_name_scope=False"
_REDUCED = f"average=None, {_DEVICES}, compression=none, op=None, {_FACTORS}"
_TAPE = (
    f"gradtape, {_DEVICES}, compression=none, sparse_as_dense=False, op=Average, "
    f"gradient_predivide_factor=1.0, num_groups=0, groups=None, {_SET}"
)

TENSORFLOW = {
    "push_pull": f"tensor, scope='', average=None, {_DEVICES}, compression=none, op=None, "
    "enable_async=False",
    "allreduce": f"tensor, {_REDUCED}, name=None, {_SET}, {_SCOPE}",
    "grouped_allreduce": f"tensors, {_REDUCED}, {_SET}, {_SCOPE}, name=None",
    "allgather": f"tensor, name=None, {_SCOPE}, {_SET}",
    "grouped_allgather": f"tensors, name=None, {_SCOPE}, {_SET}",
    "broadcast": f"tensor, root_rank, name=None, {_SCOPE}, {_SET}",
    "broadcast_": f"variables, root_rank, name=None, {_SET}",
    "alltoall": f"tensor, splits=None, name=None, {_SCOPE}, {_SET}",
    "reducescatter": f"tensor, {_DENSE}, compression=none, op=Average, name=None, {_SET}, "
    f"{_SCOPE}, {_FACTORS}",
    "grouped_reducescatter": f"tensors, {_DENSE}, compression=none, op=Average, {_SET}, {_FACTORS}",
    "size_op": "process_set_id=0, name=None",
    "process_set_included_op": "process_set_id=0, name=None",
    "rank_op": "name=None",
    "local_size_op": "name=None",
    "local_rank_op": "name=None",
    "broadcast_object": f"obj, root_rank=0, session=None, name=None, {_SET}",
    "broadcast_object_fn": f"root_rank=0, session=None, name=None, {_SET}",
    "allgather_object": f"obj, session=None, name=None, {_SET}",
    "broadcast_variables": f"variables, root_rank, {_SET}, inplace=False",
    "broadcast_global_variables": "root_rank",
    "BroadcastGlobalVariablesHook": "root_rank, device=''",
    "DistributedGradientTape": f"{_TAPE}, scale_local_gradients=True",
    "PartialDistributedGradientTape": f"{_TAPE}, local_layers=None, scale_local_gradients=True",
    "DistributedOptimizer": f"optimizer, name=None, use_locking=False, {_DEVICES}, "
    "compression=none, sparse_as_dense=False, backward_passes_per_step=1, op=Average, "
    "gradient_predivide_factor=1.0, average_aggregated_gradients=False, num_groups=0, "
    f"groups=None, {_SET}, scale_local_gradients=True",
}

_OPTIMIZER = (
    f"optimizer, name=None, {_DEVICES}, compression=none, sparse_as_dense=False, "
    "gradient_predivide_factor=1.0, op=Average, backward_passes_per_step=1, "
    "average_aggregated_gradients=False"
)
KERAS = {
    "push_pull": "value, name=None, average=True",
    "allreduce": f"value, name=None, average=None, {_FACTORS}, op=None, compression=none",
    "allgather": "value, name=None",
    "broadcast": "value, root_rank, name=None",
    "reducescatter": "value, name=None, op=Average",
    "broadcast_global_variables": "root_rank",
    "load_model": "filepath, custom_optimizers=None, custom_objects=None, compression=none, "
    "legacy_opts=False",
    "DistributedOptimizer": f"{_OPTIMIZER}, num_groups=0, groups=None, {_SET}, "
    "scale_local_gradients=True",
    "PartialDistributedOptimizer": f"{_OPTIMIZER}, groups=None, {_SET}, local_layers=None, "
    "scale_local_gradients=True",
}


def test_signatures_of_tensorflow_are_those_of_the_contract() -> None:
    import byteps.tensorflow as bps

    expect_signatures(bps, TENSORFLOW)


@pytest.mark.skipif(importlib.util.find_spec("keras") is None, reason="Keras is not installed here")
def test_signatures_of_keras_are_those_of_the_contract() -> None:
    keras = pytest.importorskip("keras", minversion="3")
    import byteps.keras as bps

    assert keras is not None
    expect_signatures(bps, KERAS)


def test_signatures_for_the_keras_of_tensorflow_are_those_of_the_contract() -> None:
    import byteps.tensorflow.keras as bps

    expect_signatures(bps, KERAS)
