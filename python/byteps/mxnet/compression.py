"""Compression of gradients: a cast before and after the exchange; and what asks for the original's
codecs, which this version does not have."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from byteps.common.gradients.compression import Compressor

__all__ = ["Compression", "Compressor", "FP16Compressor", "NoneCompressor"]

_PREFIX = "byteps_"
_CODECS = ("onebit", "topk", "randomk", "dithering")
_WITH_K = ("topk", "randomk", "dithering")
_CHOICES = {"partition": ("linear", "natural"), "normalize": ("max", "l2")}
_TEXTS = {"partition": "Unsupported partition", "normalize": "Unsupported normalization"}


class NoneCompressor:
    """Sends arrays as they are."""

    @staticmethod
    def compress(tensor: Any, *args: Any, **kwargs: Any) -> tuple[Any, object]:
        """Return the array itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, context: object, *args: Any, **kwargs: Any) -> Any:
        """Return the array itself."""
        return tensor


class FP16Compressor:
    """Sends floating-point arrays as float16."""

    @staticmethod
    def compress(tensor: Any, *args: Any, **kwargs: Any) -> tuple[Any, object]:
        """Return the array as float16 if it is a floating-point array."""
        kind = np.dtype(tensor.dtype)
        if kind.kind != "f" or kind == np.float16:
            return tensor, None
        return tensor.astype("float16"), kind

    @staticmethod
    def decompress(tensor: Any, context: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the array in the type it had."""
        return tensor if context is None else tensor.astype(context)


class Compression:
    """The compressors to choose from; any object with `compress` and `decompress` will do too.

    Example::

        trainer = bps.DistributedTrainer(params, "sgd", compression=bps.Compression.fp16)
    """

    none = NoneCompressor
    fp16 = FP16Compressor


def compression_of(params: Any) -> type[Compressor]:
    """Return the compressor that the `compression_params` of the original ask for; raise for its
    codecs, which are not there yet, and for what was an error there."""
    if not isinstance(params, Mapping):
        raise TypeError(f"compression_params is {params!r}; it should be a dict.")
    for key in ("compressor", "ef", "momentum"):
        if key in params and not isinstance(params[key], str):
            raise TypeError(f"{key} should be str; it is {params[key]!r}.")
    codec = params.get("compressor")
    if codec is not None:
        _check_codec(codec, params)
        raise _no_codecs(codec)
    if not params.get("fp16"):
        warnings.warn("Compressor is not defined in compression_params", stacklevel=3)
        return Compression.none
    return Compression.fp16


def _check_codec(codec: str, params: Mapping[str, Any]) -> None:
    if codec not in _CODECS:
        raise ValueError(f"Unsupported compressor {codec!r}; there are {', '.join(_CODECS)}.")
    if codec in _WITH_K and "k" not in params:
        raise KeyError(f"compression_params has no k, which {codec} needs.")
    for key, choices in _CHOICES.items():
        if key in params and params[key] not in choices:
            raise ValueError(f"{_TEXTS[key]}: {params[key]!r}; there are {', '.join(choices)}.")


def _no_codecs(codec: str) -> NotImplementedError:
    return NotImplementedError(
        f"the codec {codec} is not there yet: this version compresses by a cast only. Leave it "
        "out, or use compression_params={'fp16': True}."
    )


def check_tensor_options(options: Mapping[str, Any]) -> None:
    """Raise for options of a declared tensor that ask for a codec, or were an error."""
    for key, value in options.items():
        if not key.startswith(_PREFIX):
            raise ValueError(f"{key} is no option of a tensor: they begin with {_PREFIX}.")
        if not isinstance(value, (str, int, float)):
            raise ValueError(f"{key} is {value!r}; it should be a text or a number.")
    codec = options.get(f"{_PREFIX}compressor_type")
    if codec is not None:
        raise _no_codecs(str(codec).lower())
