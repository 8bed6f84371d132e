"""What of byteps.mxnet needs no job."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import mxnet as mx
import pytest
from mxnet.base import error_types


def test_errors_of_the_engine_are_errors_of_both() -> None:
    import byteps.mxnet as bps
    from byteps.common.errors import _BY_CODE
    from byteps.mxnet import errors

    errors.register()
    for code, kind in _BY_CODE.items():
        error = error_types[f"byteps.error{code}"](f"byteps.error{code}: what\nwhere")
        assert isinstance(error, kind)
        assert isinstance(error, mx.MXNetError)
        assert type(error).__name__ == kind.__name__
        assert str(error) == "what\nwhere"
        assert errors.as_mxnet_error(error) is error
    plain = bps.NotInitializedError()
    assert str(errors.as_mxnet_error(plain)) == str(plain)


def test_calls_before_init_say_so() -> None:
    import byteps.mxnet as bps

    ones = mx.nd.ones((2,))
    for call in (bps.allreduce, bps.allreduce_, bps.byteps_push_pull, bps.allgather):
        with pytest.raises(bps.NotInitializedError):
            call(ones)
    with pytest.raises(ValueError, match="initialized"):
        bps.DistributedOptimizer(mx.optimizer.create("sgd"))


def test_compression_params_are_read_and_refused() -> None:
    from byteps.mxnet.compression import Compression, compression_of

    assert compression_of({"fp16": True}) is Compression.fp16
    with pytest.warns(UserWarning, match="Compressor is not defined"):
        assert compression_of({"k": 3}) is Compression.none
    for params, kind, words in (
        ({"compressor": "onebit", "scaling": True}, NotImplementedError, "onebit"),
        ({"compressor": "topk", "k": 0.1, "ef": "vanilla"}, NotImplementedError, "topk"),
        ({"compressor": "topk"}, KeyError, "k"),
        ({"compressor": 3}, TypeError, "compressor should be str"),
        ({"compressor": "onebit", "momentum": 1}, TypeError, "momentum should be str"),
        ({"compressor": "zip"}, ValueError, "zip"),
        ({"compressor": "dithering", "k": 3, "partition": "x"}, ValueError, "partition"),
        ({"compressor": "dithering", "k": 3, "normalize": "x"}, ValueError, "normalization"),
        (["onebit"], TypeError, "dict"),
    ):
        with pytest.raises(kind, match=words):
            compression_of(params)


def test_a_trainer_refuses_what_it_cannot_exchange(core: object) -> None:
    import byteps.mxnet as bps

    bps.init()
    embedding = mx.gluon.nn.Embedding(4, 2, sparse_grad=True)
    embedding.initialize()
    with pytest.raises(ValueError, match="sparse_grad=False"):
        bps.DistributedTrainer(embedding.collect_params(), "sgd")
    dense = mx.gluon.nn.Dense(2, in_units=2)
    dense.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    with pytest.raises(ValueError, match="2 devices"):
        bps.DistributedTrainer(dense.collect_params(), "sgd")
    dense = mx.gluon.nn.Dense(2, in_units=2)
    dense.initialize()
    params = dense.collect_params()
    with pytest.raises(NotImplementedError, match="onebit"):  # the fifth argument of the original
        bps.DistributedTrainer(params, "sgd", None, 0, {"compressor": "onebit"})
    with pytest.raises(ValueError, match="gradient_predivide_factor"):
        bps.DistributedTrainer(params, "sgd", gradient_predivide_factor=-1)
    with pytest.raises(ValueError, match="num_groups"):
        bps.DistributedTrainer(params, "sgd", num_groups=-1)
    with pytest.raises(ValueError, match="distributed already"):
        bps.DistributedOptimizer(bps.DistributedOptimizer(mx.optimizer.create("sgd")))


def test_arrays_on_a_device_are_copied_with_one_warning(caplog) -> None:
    from byteps.common.devices import warn_of_host_copies
    from byteps.mxnet.arrays import _host_copy

    on_device = SimpleNamespace(
        context=SimpleNamespace(device_type="gpu"), copyto=lambda context: context.device_type
    )
    warn_of_host_copies.cache_clear()
    with caplog.at_level(logging.WARNING, logger="byteps"):
        assert [_host_copy(on_device) for _ in range(2)] == ["cpu", "cpu"]
        assert _host_copy(mx.nd.ones((2,))).asnumpy().tolist() == [1, 1]
    (record,) = caplog.records
    assert "tensors on gpu are copied through host memory, and each call waits" in record.message
