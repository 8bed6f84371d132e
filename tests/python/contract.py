"""Signatures that programs for the original and for Horovod rely on, for tests of the adapters."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from typing import Any

from byteps.common.compression import NoneCompressor
from byteps.common.process_sets import global_process_set
from byteps.common.reduction import Average

# What stands for a default in a signature.
_DEFAULTS = {"Average": Average, "everybody": global_process_set}


def expect_signatures(
    module: Any, signatures: Mapping[str, str], none: Any = NoneCompressor
) -> None:
    """Expect that the functions of a module, by name, begin with these parameters, in this order
    and with these defaults. `none` is what does not compress; more parameters may follow."""
    for name, signature in signatures.items():
        function = module
        for part in name.split("."):
            function = getattr(function, part)
        found = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
        wanted = [one.strip() for one in signature.split(",")]
        assert len(found) >= len(wanted), (name, [p.name for p in found])
        for parameter, text in zip(found, wanted, strict=False):
            key, is_optional, default = text.partition("=")
            assert parameter.name == key, (name, parameter.name, key)
            assert parameter.kind is parameter.POSITIONAL_OR_KEYWORD, (name, key)
            if not is_optional:
                assert parameter.default is parameter.empty, (name, key, parameter.default)
                continue
            known = {**_DEFAULTS, "none": none}
            expected = known[default] if default in known else ast.literal_eval(default)
            assert parameter.default == expected, (name, key, parameter.default)
        for parameter in found[len(wanted) :]:
            assert parameter.default is not parameter.empty, (name, parameter.name)
