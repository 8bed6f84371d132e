"""Which parameters have a gradient on some rank: what nobody used must stay as it is."""

from __future__ import annotations

from collections.abc import Sequence

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.byte_rows import start_combining
from byteps.common.operations.call import Call
from byteps.common.session import default
from byteps.common.session.names import usage_name
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation

# How a gradient is stored: not at all, dense, or sparse, where the number of sparse dimensions is
# added to DENSE. Where ranks differ, the higher number counts.
NO_GRADIENT, DENSE = 0, 1
# On its way, a storage with this bit says that the gradient was changed after it was sent.
_CHANGED = 0x80

_BEFORE_ALL_GRADIENTS = 1


def changed_error(names: Sequence[str], own: Sequence[str]) -> InvalidArgumentError:
    """Return what every rank raises when gradients of these names were changed on their way, `own`
    on this rank."""
    first, who = (own[0], "this rank") if own else (names[0], "another rank")
    more = f" (and {len(names) - 1} others)" if len(names) > 1 else ""
    return InvalidArgumentError(
        f"{who} changed the gradient of '{first}'{more} between backward and step(), while the "
        "gradient was on its way. The ranks' models would differ, so no rank has stepped. With "
        "DistributedOptimizer, call optimizer.synchronize() before you clip, unscale or change "
        "gradients, and step() inside 'with optimizer.skip_synchronize():'. CrossBarrier does not "
        "allow such changes."
    )


def usage_call(
    name: str, names: Sequence[str], process_set: ProcessSet = global_process_set
) -> Call:
    """Return the call that asks who has gradients of the parameters of these names.

    Ranks that mean other parameters get a MismatchError with both lists.
    """
    return Call(
        Operation.MAX,
        usage_name(name),
        priority=_BEFORE_ALL_GRADIENTS,
        process_set=process_set,
        detail=f"{len(names)} parameters: {', '.join(names)}",
    )


class Usage:
    """The storages of some gradients, over all ranks: on its way, beside the gradients.

    Wait for it before the gradients: a rank that has other parameters never sends some of them.
    """

    def __init__(self, storages: Sequence[int], are_changed: Sequence[bool], call: Call) -> None:
        """Start to ask. All ranks ask for the same parameters."""
        pairs = zip(storages, are_changed, strict=True)
        told = [storage | (_CHANGED if is_changed else 0) for storage, is_changed in pairs]
        self._handle = start_combining(call, told)

    def wait(self) -> tuple[list[int], list[int]]:
        """Return the storages, in the order of the question, and the numbers of the gradients that
        some rank has changed on their way. Once only."""
        told = default.pending().synchronize(self._handle)
        changed = [number for number, storage in enumerate(told) if storage & _CHANGED]
        return [storage & ~_CHANGED for storage in told], changed
