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

from byteps.common.job.launch_environment import tell_libraries
from byteps.common.session import default


def init_process_group() -> None:
    """Join the job and make the world of torch.distributed, for libraries over torch.

    The same as ``dist.init_process_group("byteps")``, and RANK, WORLD_SIZE, LOCAL_RANK and
    LOCAL_WORLD_SIZE are set, from which libraries such as Accelerate learn that there is a world.

    Example::

        byteps.torch.distributed.init_process_group()
        accelerator = accelerate.Accelerator(cpu=True)
    """
    import torch

    default.init()
    torch.distributed.init_process_group("byteps")
    tell_libraries(default.rank(), default.size(), default.local_rank(), default.local_size())


def register() -> None:
    """Make the backend known to torch.distributed, where this torch has it."""
    import torch

    if not torch.distributed.is_available():
        return
    from byteps.torch.distributed import process_group, rendezvous

    process_group.register_backend()
    rendezvous.register_handlers()
