"""Batch normalization over the batches of all ranks."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from byteps.common.gradients.object_names import ObjectName
from byteps.common.operations.call import Call
from byteps.common.session import default
from byteps.common.types import Operation
from byteps.torch.compile_guard import untraced
from byteps.torch.ops import allgather, synchronize
from byteps.torch.submit import exchange


class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    """Batch normalization whose mean and variance are those of the batches of all ranks together.

    Ranks may have batches of different size; the result is that of BatchNorm over all of them, in
    forward and in backward. In evaluation, and in a job of one, it is BatchNorm.

    Example::

        layer = bps.SyncBatchNorm(64)
        model = bps.SyncBatchNorm.convert_sync_batchnorm(model)     # all BatchNorm layers
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        """Take the options of torch.nn.BatchNorm1d, 2d and 3d; any number of dimensions from 2."""
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self._name: ObjectName | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the name: a copy is another layer, and the session of a file is over."""
        return {**self.__dict__, "_name": None}

    @classmethod
    def convert_sync_batchnorm(cls, module: torch.nn.Module) -> torch.nn.Module:
        """Return the module with its BatchNorm layers replaced; they share their parameters."""
        result = module
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and not isinstance(
            module, (cls, torch.nn.SyncBatchNorm)
        ):
            layer = cast(Any, module)
            options = (layer.eps, layer.momentum, layer.affine, layer.track_running_stats)
            result = cls(layer.num_features, *options)
            result.__dict__.update(
                {k: layer.__dict__[k] for k in ("_parameters", "_buffers", "training")}
            )
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child))
        return result

    def _check_input_dim(self, tensor: Tensor) -> None:
        if tensor.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {tensor.dim()}D input)")

    def forward(self, tensor: Tensor) -> Tensor:
        """Normalize; in training, by the statistics of all ranks."""
        self._check_input_dim(tensor)
        by_batch = self.training or self.running_mean is None
        if not by_batch or default.size() == 1:
            return cast(Tensor, super().forward(tensor))
        return self._normalize(tensor)

    @untraced
    def _normalize(self, tensor: Tensor) -> Tensor:
        if self._name is None:
            # By the order of their first use, which is the same on all ranks.
            self._name = ObjectName(lambda: "SyncBatchNorm")
        self._name.follow()
        apply, name = cast(Any, _Normalize).apply, self._name.text
        output, mean, variance, count = apply(tensor, self.weight, self.bias, self.eps, name)
        if self.training and self.track_running_stats:
            self._track(mean, variance, float(count))
        return cast(Tensor, output)

    def _track(self, mean: Tensor, variance: Tensor, count: float) -> None:
        """Move the running statistics, as BatchNorm does: with the unbiased variance."""
        self.num_batches_tracked.add_(1)
        factor = self.momentum
        if factor is None:
            factor = 1.0 / float(self.num_batches_tracked)
        unbiased = variance * (count / max(count - 1.0, 1.0))
        running_mean, running_var = cast(Tensor, self.running_mean), cast(Tensor, self.running_var)
        running_mean.lerp_(mean.to(running_mean.dtype), factor)
        running_var.lerp_(unbiased.to(running_var.dtype), factor)


class _Normalize(torch.autograd.Function):
    """The normalization as autograd sees it. Statistics are calculated in float64."""

    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, name: str
    ) -> Any:
        mean, variance, count = _statistics_of_all(tensor, name)
        inverse = (variance + eps).rsqrt()
        kind = _calculation_type(tensor)
        centered = tensor.to(kind) - _by_channel(mean, tensor, kind)
        normalized = centered * _by_channel(inverse, tensor, kind)
        output = normalized
        if weight is not None:
            output = output * _by_channel(weight, tensor, kind)
        if bias is not None:
            output = output + _by_channel(bias, tensor, kind)
        ctx.save_for_backward(normalized, inverse, weight)
        ctx.name, ctx.count = name, count
        counts = torch.tensor(count)
        ctx.mark_non_differentiable(mean, variance, counts)
        return output.to(tensor.dtype), mean, variance, counts

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        normalized, inverse, weight = ctx.saved_tensors
        gradient = gradients[0].to(normalized.dtype)
        channels = [d for d in range(gradient.dim()) if d != 1]
        own = torch.stack([gradient.sum(channels), (gradient * normalized).sum(channels)]).double()
        grad_input = None
        if ctx.needs_input_grad[0]:
            total = _sum_over_ranks(own, f"{ctx.name}.backward") / max(ctx.count, 1.0)
            kind = normalized.dtype
            mean = _by_channel(total[0], gradient, kind)
            mean_product = _by_channel(total[1], gradient, kind)
            scale = inverse if weight is None else inverse * weight
            grad_input = gradient - mean - normalized * mean_product
            grad_input = (grad_input * _by_channel(scale, gradient, kind)).to(gradients[0].dtype)
        # Those of the parameters are averaged with all others, so each rank has its own part.
        grad_weight = own[1].to(weight.dtype) if ctx.needs_input_grad[1] else None
        grad_bias = own[0].to(weight.dtype) if ctx.needs_input_grad[2] else None
        return grad_input, grad_weight, grad_bias, None, None


def _statistics_of_all(tensor: Tensor, name: str) -> tuple[Tensor, Tensor, float]:
    """Return mean and variance of each channel over all ranks, and the number of elements."""
    channels = tensor.shape[1]
    count = tensor.numel() // channels if channels else 0
    values = tensor.detach().transpose(0, 1).reshape(channels, -1).double()
    mean, squares = values.new_zeros(channels), values.new_zeros(channels)
    if count:
        mean = values.mean(1)
        squares = (values - mean[:, None]).pow_(2).sum(1)
    row = torch.cat([mean, squares, mean.new_tensor([count])])
    rows = allgather(row[None], f"{name}.statistics")
    counts = rows[:, -1:]
    total = float(counts.sum())
    means, deviations = rows[:, :channels], rows[:, channels:-1]
    mean = (means * counts).sum(0) / max(total, 1.0)
    # Deviations from the own mean, and of that from the mean of all.
    spread = deviations + counts * (means - mean).pow(2)
    return mean, spread.sum(0) / max(total, 1.0), total


def _sum_over_ranks(own: Tensor, name: str) -> Tensor:
    total = own.cpu().contiguous().clone()
    synchronize(exchange(Call(Operation.SUM, name), total, total))
    return total.to(own.device)


def _calculation_type(tensor: Tensor) -> torch.dtype:
    return torch.float32 if tensor.dtype in (torch.float16, torch.bfloat16) else tensor.dtype


def _by_channel(values: Tensor, like: Tensor, dtype: torch.dtype) -> Tensor:
    """Return one value for each channel in a shape that goes with a batch."""
    return values.to(dtype).reshape(1, -1, *[1] * (like.dim() - 2))
