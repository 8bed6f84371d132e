"""The gradients of an optimizer of Keras, combined over all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from byteps.common.gradients.gradient_exchange import gradient_call
from byteps.keras_common.access import names_of
from byteps.keras_common.backend import Backend
from byteps.keras_common.settings import OptimizerPart


def combined(
    backend: Backend, part: OptimizerPart, gradients: Sequence[Any], variables: Sequence[Any]
) -> list[Any]:
    """Return the gradients after the exchange. None stays None.

    Those of local variables stay on this rank, divided by the number of ranks.
    """
    options = part.settings.options
    results = list(gradients)
    if options.sparse_as_dense:
        for place, gradient in enumerate(results):
            if gradient is not None and backend.is_sparse(gradient):
                results[place] = backend.to_dense(gradient)
    if not part.is_active:
        return results
    shared, local = part.split(results, variables)
    divisor = part.local_divisor()
    for place in local if divisor > 1 else ():
        results[place] = backend.scaled(results[place], divisor)
    call = gradient_call(options, part.call_name(), 0)
    names = names_of(variables)
    found = backend.combine(
        call,
        [names[place] for place in shared],
        [results[place] for place in shared],
        [variables[place] for place in shared],
        options,
    )
    for place, result in zip(shared, found, strict=True):
        results[place] = result
    return results
