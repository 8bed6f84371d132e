"""DistributedTrainer: Gluon's trainer, on gradients averaged over all ranks."""

from __future__ import annotations

import warnings
from typing import Any

import mxnet as mx
import numpy as np

from byteps.common.gradients.compression import Compressor
from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.operations.byte_rows import start_combining
from byteps.common.operations.call import Call
from byteps.common.operations.reduction import Average
from byteps.common.session import default
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.mxnet.compression import Compression, compression_of
from byteps.mxnet.errors import raises_mxnet_errors
from byteps.mxnet.gradients import Gradients
from byteps.mxnet.optimizer import AveragingOptimizer, undistributed
from byteps.mxnet.weights import PREFIX, start_broadcast


class DistributedTrainer(mx.gluon.Trainer):
    """A Gluon trainer that averages gradients over all ranks before it updates.

    It pushes exchanges and updates to MXNet's engine and waits for nothing: the engine exchanges a
    gradient when backward has computed it. The first step broadcasts the parameters of `root_rank`,
    which is the lowest rank of `process_set` unless it is given.

    After `step(batch_size)` the gradients are averages divided by the batch size, as in the
    original. `allreduce_grads()` averages and does not divide; then `update(batch_size)` does, as
    in MXNet: clip gradients between the two.

    With `ignore_stale_grad=True` the ranks tell each other which parameters they have used: a rank
    that has not used one counts as zero, and all ranks update what some rank has used. This waits.

    `gradient_predivide_factor` divides before the ranks are added up. Two trainers with the same
    `prefix` are told apart by the order in which they are made. `num_groups` makes gradients travel
    together. `compression_params` are those of the original, of which only `fp16` is there. For
    programs of the original, the fourth argument may be `root_rank` and the fifth
    `compression_params`.

    Example::

        trainer = bps.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        with mx.autograd.record():
            loss = loss_of(net(images), labels)
        loss.backward()
        trainer.step(batch_size)
    """

    @raises_mxnet_errors
    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: dict[str, Any] | None = None,
        compression: Compressor | type[Compressor] | int = Compression.none,
        gradient_predivide_factor: float | dict[str, Any] | None = 1.0,
        prefix: str | None = None,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
        root_rank: int | None = None,
        compression_params: dict[str, Any] | None = None,
    ) -> None:
        """Make the trainer; all ranks must make theirs in the same order."""
        if isinstance(compression, (int, np.integer)):  # the fourth of the original
            root_rank, compression = int(compression), Compression.none
        if gradient_predivide_factor is None or isinstance(gradient_predivide_factor, dict):
            compression_params = gradient_predivide_factor or compression_params
            gradient_predivide_factor = 1.0
        if compression_params:
            compression = compression_of(compression_params)
        if isinstance(optimizer, AveragingOptimizer):
            warnings.warn(
                "DistributedTrainer does not take a DistributedOptimizer: it uses the optimizer "
                "that this was made of.",
                stacklevel=3,
            )
            optimizer = undistributed(optimizer)
        options = ExchangeOptions(
            compression,
            op=Average,
            predivide_factor=gradient_predivide_factor,
            process_set=process_set,
        )
        self._gradients = Gradients(options, num_groups, prefix or "")
        self._root_rank = root_rank
        super().__init__(params, optimizer, optimizer_params, kvstore=None)
        _check_parameters(self._params, self._contexts)
        self._params_to_init: list[Any] = []  # of a kvstore
        self._unsent: list[tuple[int, Any]] | None = list(enumerate(self._params))

    def step(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """Average the gradients and divide them by the batch size; then update."""
        if not self._gradients.is_active:
            super().step(batch_size, ignore_stale_grad)
            return
        self._begin()
        if ignore_stale_grad:
            self._agree_about_stale()
        scale = self._scale / batch_size
        with mx.autograd.pause():
            for gradient in self._own_gradients():
                gradient *= scale
        self._allreduce_grads()
        self._check_and_rescale_grad(1.0)
        self._update(ignore_stale_grad)

    def _own_gradients(self) -> list[Any]:
        return [param.list_grad()[0] for param in self._params if param.grad_req != "null"]

    def allreduce_grads(self) -> None:
        """Average the gradients; `update` should follow."""
        self._begin()
        super().allreduce_grads()

    @raises_mxnet_errors
    def _allreduce_grads(self) -> None:
        if not self._gradients.is_active:
            return
        self._gradients.average(
            [
                (place, -place, param.list_grad()[0])
                for place, param in enumerate(self._params)
                if param.grad_req != "null"
            ]
        )

    @raises_mxnet_errors
    def _begin(self) -> None:
        """In the first step, start all ranks from the same parameters."""
        if not self._kv_initialized:
            self._init_kvstore()
        unsent, self._unsent = self._unsent, None
        if not unsent or not self._gradients.is_active:
            return
        process_set = self._gradients.options.process_set
        root = process_set.ranks[0] if self._root_rank is None else self._root_rank
        for place, param in unsent:
            name = PREFIX + self._gradients.parameter_name(place)
            start_broadcast(name, param, root, process_set)

    @raises_mxnet_errors
    def _agree_about_stale(self) -> None:
        """Have zeros for what this rank has not used, and update what some rank has used."""
        trained = [param for param in self._params if param.grad_req != "null"]
        own = [param.list_data()[0]._fresh_grad for param in trained]
        options = self._gradients.options
        call = Call(Operation.MAX, f"{self._gradients.owner}.used", process_set=options.process_set)
        numbers = [int(is_fresh) for is_fresh in own]
        used = default.pending().synchronize(start_combining(call, numbers))
        for param, is_fresh, is_used in zip(trained, own, used, strict=True):
            if not is_fresh:
                param.list_grad()[0][:] = 0
                param.list_data()[0]._fresh_grad = bool(is_used)


def _check_parameters(params: list[Any], contexts: list[Any]) -> None:
    if len(contexts) > 1:
        raise ValueError(
            f"the parameters are on {len(contexts)} devices; a process has one. Start a process "
            "for each device."
        )
    for param in params:
        if param._stype != "default" or param._grad_stype != "default":
            raise ValueError(
                f"parameter {param.name} is sparse (storage {param._stype}, gradient "
                f"{param._grad_stype}); give its layer sparse_grad=False, since only dense ones "
                "are exchanged."
            )
