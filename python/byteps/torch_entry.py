"""What torch finds by the entry points of this package, without an import in the program.

- `torch.backends`: torch 2.5 and newer call `begin` at the end of `import torch`, in every program
  of this Python. So `begin` never fails, and imports neither byteps.torch nor the native library.
- `torch.distributed.backends`: torch 2.14 and newer call `register` when a program asks for the
  backend by its name.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from byteps import torch_registry
from byteps.common.job.launch_notes import IMPORTED, tell_launcher

_LOG = logging.getLogger("byteps")


def begin() -> None:
    """Let torch find the backend by its name. An error here would end `import torch`."""
    try:
        register()
        tell_launcher(IMPORTED)
    except Exception as error:
        _LOG.warning(
            "torch.distributed does not know the backend 'byteps' yet: %r. 'import byteps.torch' "
            "makes it known.",
            error,
        )


def register() -> None:
    """Make the backend known to torch.distributed, where this torch has it."""
    import torch

    if torch.distributed.is_available():
        torch_registry.register(_create, _meet)


def _create(options: Any, backend_options: object = None) -> Any:
    module = importlib.import_module("byteps.torch.distributed.split_group")
    return module.create(options, backend_options)


def _meet(url: str, timeout: timedelta = torch_registry.LIMIT, **more: Any) -> Iterator[Any]:
    module = importlib.import_module("byteps.torch.distributed.rendezvous")
    yield from module.meet(url, timeout, **more)
