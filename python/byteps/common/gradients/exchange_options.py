"""What the user of an optimizer can choose, in any framework, and which choices make no sense."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

from byteps.common.gradients.compression import Compressor, check_compression
from byteps.common.operations.reduction import Average, ReduceOp, Sum, operation_of
from byteps.common.session.process_sets import ProcessSet, global_process_set


@dataclass(frozen=True)
class ExchangeOptions:
    """What the user of an optimizer can choose."""

    compression: Compressor | type[Compressor]
    passes_per_step: int = 1
    op: ReduceOp = Average
    predivide_factor: float = 1.0
    sparse_as_dense: bool = False
    process_set: ProcessSet = global_process_set
    sparse_results: bool = False  # the optimizer takes no others: averages get sparse again

    def check(self) -> None:
        """Raise for what makes no sense."""
        operation_of(self.op)
        check_compression(self.compression)
        if self.op not in (Average, Sum):
            raise ValueError("gradients are combined with op=Average or op=Sum.")
        if self.predivide_factor != 1.0 and self.op is not Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
        if not _is_number(self.predivide_factor) or not 0 < self.predivide_factor < math.inf:
            raise ValueError(
                f"gradient_predivide_factor is {self.predivide_factor!r}; it must be a number "
                "above 0."
            )
        if not isinstance(self.process_set, ProcessSet):
            raise ValueError(
                f"process_set is {self.process_set!r}; give a ProcessSet, from add_process_set."
            )
        check_passes(self.passes_per_step)


def check_passes(passes: float) -> None:
    """Raise for what is no number of backward passes in a step."""
    if not is_whole(passes) and not (isinstance(passes, float) and passes.is_integer()):
        raise ValueError(f"backward_passes_per_step is {passes!r}; it must be a whole number.")
    if passes < 1:
        raise ValueError(f"backward_passes_per_step is {passes}; at least 1.")


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_whole(value: object) -> bool:
    """Return whether it is a whole number, also numpy's."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
