"""The backend `byteps` of torch.distributed, in Python: registered when byteps.torch is imported.

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


def register() -> None:
    """Make the backend known to torch.distributed, where this torch has it."""
    import torch

    if not torch.distributed.is_available():
        return
    from byteps.torch.distributed import process_group, rendezvous

    process_group.register_backend()
    rendezvous.register_handlers()
