"""PyTorch Lightning over byteps. The strategy is Lightning's own, with the name of the backend.

    python examples/torch_lightning.py
    torchrun --nproc-per-node 2 examples/torch_lightning.py
    bps run -np 2 python examples/torch_lightning.py

Needs ``pip install lightning``. `torch_lightning.py gloo` is the same program over Gloo.
"""

from __future__ import annotations

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from regression import BATCH, chosen_backend, data_of_all, fingerprint, make_model
from torch.utils.data import DataLoader


class Network(lightning.LightningModule):
    """A small network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = make_model()

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.layers(inputs), targets)
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> None:
    """Train on the data of all ranks."""
    lightning.seed_everything(0)
    model = Network()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(process_group_backend=chosen_backend()),
        max_epochs=4,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(data_of_all(), batch_size=BATCH, shuffle=True))
    if trainer.is_global_zero:
        loss = trainer.callback_metrics["loss"].item()
        print(f"loss {loss:.4f} on {trainer.world_size} ranks")
    print(f"weights {fingerprint(model.parameters())}")


if __name__ == "__main__":
    main()
