"""Models that average their gradients during backward."""

from byteps.torch.parallel.data_parallel import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
