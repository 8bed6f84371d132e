"""Operations inside programs of XLA: see byteps.common.xla."""

from __future__ import annotations

import functools

import jax

from byteps.common import default
from byteps.common.names import unnamed_number
from byteps.common.process_sets import ProcessSet
from byteps.common.program_exchange import scope_in_programs
from byteps.common.xla import TARGET

KEEP_TARGET = "byteps_keep"


def next_number(process_set: ProcessSet) -> int:
    """Return the number of the next call without a name in programs: the same on all ranks, which
    make these calls in the order of the program."""
    return unnamed_number(default.current().unnamed.name(scope_in_programs(process_set)))


@functools.cache
def register() -> None:
    """Tell XLA of the custom calls. Needs the native module."""
    from byteps import _core

    jax.ffi.register_ffi_target(TARGET, _core.xla_handler, platform="cpu")
    jax.ffi.register_ffi_target(KEEP_TARGET, _core.xla_keep, platform="cpu")
