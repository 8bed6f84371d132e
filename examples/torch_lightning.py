"""PyTorch Lightning over byteps: ``bps run -np 2 python examples/torch_lightning.py``.

Needs ``pip install lightning``. The plug-in tells Lightning that the ranks are there already; the
strategy is Lightning's own DDP.
"""

from __future__ import annotations

import lightning
import torch
from lightning.pytorch.plugins.environments import ClusterEnvironment
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset

import byteps.torch as bps
import byteps.torch.distributed


class BytepsEnvironment(ClusterEnvironment):
    """The ranks of the job, as Lightning asks for them."""

    creates_processes_externally = True
    main_address = "unused"  # the world of torch.distributed is made before
    main_port = 0

    @staticmethod
    def detect() -> bool:
        return bps.is_initialized()

    def world_size(self) -> int:
        return bps.size()

    def set_world_size(self, size: int) -> None:
        assert size == bps.size(), "devices * num_nodes must be the number of ranks"

    def global_rank(self) -> int:
        return bps.rank()

    def set_global_rank(self, rank: int) -> None:
        assert rank == bps.rank()

    def local_rank(self) -> int:
        return bps.local_rank()

    def node_rank(self) -> int:
        return bps.cross_rank()


class Line(lightning.LightningModule):
    """A linear model."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.layer(inputs).squeeze(1), targets)
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    """Fit a line, on the data of all ranks."""
    byteps.torch.distributed.init_process_group()
    torch.manual_seed(0)
    inputs = torch.randn(512, 4)
    targets = inputs @ torch.tensor([1.0, -2.0, 3.0, 0.5]) + 1
    model = Line()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=bps.local_size(),
        num_nodes=bps.cross_size(),
        strategy=DDPStrategy(
            cluster_environment=BytepsEnvironment(), process_group_backend="byteps"
        ),
        max_epochs=4,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(TensorDataset(inputs, targets), batch_size=16, shuffle=True))
    weights = model.layer.weight.detach()
    assert torch.equal(bps.allgather(weights), weights.expand(bps.size(), -1))
    if bps.rank() == 0:
        loss = trainer.callback_metrics["loss"].item()
        print(f"loss {loss:.2e} over {trainer.world_size} ranks")


if __name__ == "__main__":
    main()
