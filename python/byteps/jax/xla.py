"""Operations inside programs of XLA: see byteps.common.programs.xla."""

from __future__ import annotations

import functools

import jax

from byteps.common.programs.program_exchange import scope_in_programs
from byteps.common.programs.xla import TARGET
from byteps.common.session import default
from byteps.common.session.names import unnamed_number
from byteps.common.session.process_sets import ProcessSet

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
    jax.ffi.register_ffi_target(TARGET, _core.xla_device_handler, platform="CUDA")
