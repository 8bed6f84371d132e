"""The backend `byteps` of torch.distributed, in Python.

torch finds it by its name (byteps/torch_entry.py), or after an import of byteps.torch.

Example, a script to start with ``bps run -np 2 python script.py``::

    import torch
    import torch.distributed as dist
    import byteps.torch

    dist.init_process_group("byteps")
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    dist.destroy_process_group()
"""

from __future__ import annotations

from byteps import torch_registry


def init_process_group() -> None:
    """Join the job and make the world of torch.distributed, for libraries over torch.

    The same as ``dist.init_process_group("byteps")``.

    Example::

        byteps.torch.distributed.init_process_group()
        accelerator = accelerate.Accelerator(cpu=True)
    """
    import torch

    torch.distributed.init_process_group("byteps")


def register() -> None:
    """Make the backend known to torch.distributed, where this torch has it."""
    import torch

    if not torch.distributed.is_available():
        return
    from byteps.torch.distributed import rendezvous, split_group

    torch_registry.register(split_group.create, rendezvous.meet)
