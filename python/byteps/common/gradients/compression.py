"""What makes gradients smaller on their way, in terms of whichever tensors a framework has."""

from __future__ import annotations

from typing import Any, Protocol


class Compressor(Protocol):
    """Turns a tensor into a smaller one and back; `context` is what the way back needs.

    Example::

        class Halving(bps.Compressor):
            @staticmethod
            def compress(tensor):
                return tensor / 2, None

            @staticmethod
            def decompress(tensor, context):
                return tensor * 2
    """

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, object]:
        """Return the tensor to send, and the context."""

    @staticmethod
    def decompress(tensor: Any, context: object) -> Any:
        """Return the tensor in its original form."""


class NoneCompressor:
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, object]:
        """Return the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, context: object) -> Any:
        """Return the tensor itself."""
        return tensor


def check_compression(compression: object) -> None:
    """Raise for what cannot compress gradients."""
    for name in ("compress", "decompress"):
        if not callable(getattr(compression, name, None)):
            raise ValueError(
                f"compression is {compression!r}, which has no function {name}; give one of "
                "Compression.none, Compression.fp16 and Compression.bf16, or a Compressor."
            )
