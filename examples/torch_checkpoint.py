"""A training that saves its state when another rank is lost, or when it is asked to end.

Run: bps run --grace 30 -np 2 python examples/torch_checkpoint.py --folder checkpoints

Each rank writes a file of its own, because nobody knows before which ranks will be left. A new run
of the same folder goes on with the newest file.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import torch

import byteps.torch as bps


class EndRequest:
    """Notes that a launcher or a cluster wants this process to end; the step goes on."""

    def __init__(self) -> None:
        """Take SIGTERM, which bps run also sends to the ranks that have survived a loss."""
        self.has_come = False
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, frame: object) -> None:
        del number, frame
        self.has_come = True


def save(folder: Path, step: int, model: torch.nn.Module) -> None:
    """Write the state after `step` steps, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"rank{bps.rank()}.draft"
    torch.save({"step": step, "model": model.state_dict()}, draft)
    draft.rename(folder / f"rank{bps.rank()}.pt")
    print(f"saved after step {step}", flush=True)


def load(folder: Path, model: torch.nn.Module) -> int:
    """Take the newest state of the folder, on all ranks that of rank 0; return its step."""
    states = [torch.load(path, weights_only=True) for path in folder.glob("rank*.pt")]
    newest = max(states, key=lambda one: one["step"], default=None)
    if newest is not None:
        model.load_state_dict(newest["model"])
    step = 0 if newest is None else newest["step"]
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
    return int(bps.broadcast_object(step, root_rank=0, name="step"))


def train(folder: Path, steps: int) -> None:
    """Go on from the newest state to `steps` steps."""
    asked_to_end = EndRequest()
    torch.manual_seed(bps.rank())
    model = torch.nn.Linear(8, 1)
    step = load(folder, model)
    print(f"begins at step {step}", flush=True)
    optimizer = bps.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters()
    )
    weights = torch.arange(8.0).unsqueeze(1)
    try:
        while step < steps:
            inputs = torch.randn(16, 8)
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), inputs @ weights).backward()
            optimizer.step()
            step += 1
            if asked_to_end.has_come:
                save(folder, step, model)
                sys.exit(128 + signal.SIGTERM)
    except bps.PeerLostError:
        save(folder, step, model)  # the failed step has changed nothing
        raise
    save(folder, step, model)


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="of the files")
    parser.add_argument("--steps", type=int, default=1000, help="to train in all")
    options = parser.parse_args()
    bps.init()
    train(options.folder, options.steps)


if __name__ == "__main__":
    main()
