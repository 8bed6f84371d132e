"""The tensors of a benchmark: of torch where it is installed, beside Gloo; else of numpy."""

from __future__ import annotations

import datetime
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from byteps.common.errors import UnavailableError

_ITEM_BYTES = 4
_GLOO_LIMIT = datetime.timedelta(seconds=120)


class Arrays(ABC):
    """One tensor of float32, and the exchanges of it."""

    def __init__(self, bps: Any) -> None:
        """`bps` is the adapter."""
        self.bps = bps

    @property
    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Return the versions of what takes part."""

    @abstractmethod
    def prepare(self, nbytes: int) -> None:
        """Make the tensor, of so many bytes; all elements are rank + 1."""

    @abstractmethod
    def values(self) -> Sequence[float]:
        """Return the first and the last value, and one between them."""

    @abstractmethod
    def clear(self) -> None:
        """Let all values be 0, which no number of sums changes."""

    @abstractmethod
    def in_place(self) -> None:
        """Sum the tensor over all ranks in place."""

    @abstractmethod
    def new_tensor(self) -> None:
        """Sum the tensor over all ranks into a new one."""

    @abstractmethod
    def begin_gloo(self) -> str:
        """Join the others in Gloo; return why this rank cannot, or nothing."""

    @abstractmethod
    def gloo(self) -> None:
        """Sum the tensor over all ranks in place, with Gloo. REQUIRES: `begin_gloo` has worked."""

    @abstractmethod
    def end_gloo(self) -> None:
        """Leave the others in Gloo. REQUIRES: `begin_gloo` has worked."""


class TorchArrays(Arrays):
    """Tensors of torch."""

    def __init__(self) -> None:
        """Import torch."""
        import torch

        import byteps.torch as bps

        super().__init__(bps)
        self._torch = torch
        self._tensor = torch.empty(0)
        self._name = ""

    @property
    def versions(self) -> dict[str, str]:
        """Return the version of the framework."""
        return {"torch": str(self._torch.__version__)}

    def prepare(self, nbytes: int) -> None:
        """Make the tensor."""
        self._name = f"byteps.bench.{nbytes}"
        self._tensor = self._torch.full((nbytes // _ITEM_BYTES,), float(self.bps.rank() + 1))

    def values(self) -> Sequence[float]:
        """Return three values."""
        places = (0, self._tensor.numel() // 2, -1)
        return [float(self._tensor[place]) for place in places]

    def clear(self) -> None:
        """Let all values be 0."""
        self._tensor.zero_()

    def in_place(self) -> None:
        """Sum in place."""
        self.bps.allreduce_(self._tensor, op=self.bps.Sum, name=self._name)

    def new_tensor(self) -> None:
        """Sum into a new tensor."""
        self.bps.allreduce(self._tensor, op=self.bps.Sum, name=self._name)

    def begin_gloo(self) -> str:
        """Join the others in Gloo."""
        import torch.distributed as dist

        if not dist.is_available() or not dist.is_gloo_available():
            return "this torch has no Gloo"
        try:
            dist.init_process_group("gloo", timeout=_GLOO_LIMIT)
        except (RuntimeError, ValueError) as error:
            return f"Gloo does not start: {str(error).splitlines()[0]}"
        return ""

    def gloo(self) -> None:
        """Sum in place with Gloo."""
        self._torch.distributed.all_reduce(self._tensor)

    def end_gloo(self) -> None:
        """Leave the others in Gloo."""
        self._torch.distributed.destroy_process_group()


class NumpyArrays(Arrays):
    """Arrays of numpy."""

    def __init__(self) -> None:
        """Import numpy."""
        import numpy

        import byteps.numpy as bps

        super().__init__(bps)
        self._numpy = numpy
        self._array: numpy.ndarray[Any, Any] = numpy.empty(0, numpy.float32)
        self._name = ""

    @property
    def versions(self) -> dict[str, str]:
        """Return the version of the framework."""
        return {"numpy": str(self._numpy.__version__)}

    def prepare(self, nbytes: int) -> None:
        """Make the tensor."""
        self._name = f"byteps.bench.{nbytes}"
        count = nbytes // _ITEM_BYTES
        self._array = self._numpy.full(count, self.bps.rank() + 1, self._numpy.float32)

    def values(self) -> Sequence[float]:
        """Return three values."""
        places = (0, self._array.size // 2, -1)
        return [float(self._array[place]) for place in places]

    def clear(self) -> None:
        """Let all values be 0."""
        self._array.fill(0)

    def in_place(self) -> None:
        """Sum in place."""
        self.bps.allreduce_(self._array, op=self.bps.Sum, name=self._name)

    def new_tensor(self) -> None:
        """Sum into a new tensor."""
        self.bps.allreduce(self._array, op=self.bps.Sum, name=self._name)

    def begin_gloo(self) -> str:
        """Say that Gloo needs torch."""
        return "torch is not installed"

    def gloo(self) -> None:
        """Do nothing: there is no Gloo."""

    def end_gloo(self) -> None:
        """Do nothing: there is no Gloo."""


def installed_arrays() -> Arrays:
    """Return the tensors of what is installed here."""
    if importlib.util.find_spec("torch") is not None:
        return TorchArrays()
    if importlib.util.find_spec("numpy") is not None:
        return NumpyArrays()
    raise UnavailableError("bps bench needs torch or numpy here: pip install numpy.")
