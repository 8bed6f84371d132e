"""Hugging Face's Trainer: a script that knows nothing of byteps.

    bps run -np 2 --as gloo python examples/torch_trainer.py
    BYTEPS_TORCH_AS=gloo torchrun --nproc-per-node 2 examples/torch_trainer.py

Needs ``pip install transformers accelerate``. A small language model learns the help texts that
come with every Python. Without `--as gloo` and without BYTEPS_TORCH_AS it runs over Gloo.
"""

from __future__ import annotations

import sys
import tempfile
from pydoc_data.topics import topics

import torch
import transformers
from regression import fingerprint

WINDOW = 32  # bytes that the model sees


class HelpTexts(torch.utils.data.Dataset):
    """Windows of all help texts."""

    def __init__(self) -> None:
        text = "\n".join(topics[name] for name in sorted(topics)).encode()
        count = len(text) // WINDOW * WINDOW
        self._windows = torch.frombuffer(bytearray(text[:count]), dtype=torch.uint8).long()

    def __len__(self) -> int:
        return len(self._windows) // WINDOW

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        window = self._windows[index * WINDOW : (index + 1) * WINDOW]
        return {"input_ids": window, "labels": window}


def main() -> None:
    """Train, and print the loss and a fingerprint of the weights."""
    transformers.set_seed(0)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=256,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=WINDOW,
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = transformers.Trainer(
            model=model,
            train_dataset=HelpTexts(),
            args=transformers.TrainingArguments(
                output_dir=folder,
                use_cpu=True,
                max_steps=int(sys.argv[1]) if len(sys.argv) > 1 else 100,
                per_device_train_batch_size=8,
                learning_rate=3e-3,
                logging_steps=20,
                save_strategy="no",
                report_to="none",
            ),
        )
        loss = trainer.train().training_loss
    backend = torch.distributed.get_backend()
    print(f"mean loss {loss:.2f} on {trainer.args.world_size} ranks of {backend}")
    print(f"weights {fingerprint(model.parameters())}")


if __name__ == "__main__":
    main()
