"""Sparse tensors (COO): rows of all ranks, combined by row."""

from __future__ import annotations

import torch

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.call import Call
from byteps.common.operations.reduction import Average, ReduceOp, Sum
from byteps.common.session import default
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.torch.allgather import start_gather_parts


class SparseHandle:
    """A sparse operation on its way: call it, or give it to `synchronize`, for the result."""

    def __init__(self, handle: Handle[torch.Tensor]) -> None:
        self.handle = handle

    def __call__(self) -> torch.Tensor:
        """Wait for the operation and return its sparse tensor."""
        return default.pending().synchronize(self.handle)


def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
) -> SparseHandle:
    """Start to combine a sparse COO tensor over all ranks; return what yields the result.

    Only rows that some rank has travel. Rows that a rank has several times are added up before they
    are sent. The result is the same, bit for bit, on every rank and in every run.

    Example::

        get = bps.sparse_allreduce_async(embedding.weight.grad, name="embedding", op=bps.Sum)
        embedding.weight.grad = get()
    """
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.sparse_coo:
        what = getattr(tensor, "layout", type(tensor).__name__)
        raise InvalidArgumentError(
            f"sparse_allreduce_async takes sparse COO tensors; this one is {what}. Use allreduce "
            "for dense ones."
        )
    if op not in (Average, Sum):
        raise InvalidArgumentError("sparse tensors are combined with op=Average or op=Sum.")
    merged = tensor.detach().coalesce()
    shape = list(tensor.shape)
    sparse_dimensions = tensor.sparse_dim()
    call = Call(
        Operation.ALLGATHER,
        name,
        process_set=process_set,
        detail=f"sparse {op.name.lower()} of {shape}, {sparse_dimensions} dimensions sparse",
    )

    def combine(parts: list[list[torch.Tensor]], _: int, members: list[int]) -> torch.Tensor:
        values = _sum_by_row(parts[0], parts[1])
        if op is Average:
            # Whose rows are in it, also of a rank that was lost since, and who has joined.
            ranks = set(members) | set(process_set.ranks) & set(default.current().members())
            rounding = None if values[1].is_floating_point() else "floor"
            values = (values[0], values[1].div(len(ranks), rounding_mode=rounding))
        indices, rows = (part.to(tensor.device) for part in values)
        return torch.sparse_coo_tensor(
            indices.t(), rows, shape, is_coalesced=True, check_invariants=False
        )

    indices = merged.indices().t().contiguous()
    return SparseHandle(start_gather_parts(call, [indices, merged.values()], combine))


def _sum_by_row(
    indices: list[torch.Tensor], values: list[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the indices that some rank has, in order, and the sums, rank after rank."""
    rows, places = torch.unique(torch.cat(indices), dim=0, return_inverse=True)
    total = values[0].new_zeros((len(rows), *values[0].shape[1:]))
    at = 0
    for part in values:  # no rank has a row twice, so the order of additions is that of the ranks
        total.index_add_(0, places[at : at + len(part)], part)
        at += len(part)
    return rows, total
