"""A small language model: ``bps run -np 2 python examples/torch_language_model.py``.

It learns to continue text, character by character, from the help texts that come with every Python.
Each rank reads its own part of the text.
"""

from __future__ import annotations

import argparse
import math
from pydoc_data.topics import topics

import torch
from torch import nn

import byteps.torch as bps

WINDOW = 64  # characters that the model sees
PRINTABLE = [chr(code) for code in range(32, 127)] + ["\n"]


def load_text() -> torch.Tensor:
    """Return all help texts as numbers of characters."""
    number = {character: i for i, character in enumerate(PRINTABLE)}
    text = "\n".join(topics[name] for name in sorted(topics))
    return torch.tensor([number[c] for c in text if c in number])


class Model(nn.Module):
    """Layers of attention that look back only."""

    def __init__(self, width: int, layers: int, heads: int = 4) -> None:
        super().__init__()
        self.characters = nn.Embedding(len(PRINTABLE), width)
        self.places = nn.Embedding(WINDOW, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.next = nn.Linear(width, len(PRINTABLE))
        mask = nn.Transformer.generate_square_subsequent_mask(WINDOW)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return for each place how likely each character is to come next."""
        hidden = self.characters(text) + self.places.weight
        return self.next(self.layers(hidden, mask=self.mask, is_causal=True))


def draw(text: torch.Tensor, count: int, dice: torch.Generator) -> torch.Tensor:
    """Return some windows of the text, each with the character after it."""
    starts = torch.randint(len(text) - WINDOW, (count,), generator=dice)
    return torch.stack([text[i : i + WINDOW + 1] for i in starts.tolist()])


def main() -> None:
    """Train, and print the loss in bits per character."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    arguments = parser.parse_args()
    bps.init()
    torch.manual_seed(0)
    dice = torch.Generator().manual_seed(bps.rank())
    text = load_text().tensor_split(bps.size())[bps.rank()]
    model = Model(arguments.width, arguments.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    optimizer = bps.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
    report_every = max(1, arguments.steps // 5)
    for step in range(1, arguments.steps + 1):
        windows = draw(text, arguments.batch_size, dice)
        guess = model(windows[:, :-1])
        loss = nn.functional.cross_entropy(guess.flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % report_every == 0 or step == arguments.steps:
            bits = bps.allreduce(loss.detach(), name="loss").item() / math.log(2)
            if bps.rank() == 0:
                print(f"step {step}: {bits:.2f} bits per character", flush=True)
    bps.check_replicas(model)


if __name__ == "__main__":
    main()
