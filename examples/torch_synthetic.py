"""A benchmark on random images: ``bps run -np 2 python examples/torch_synthetic.py``.

The options and the lines are those of the original's benchmark, so that results can be compared.
`--image-size` is new: small images let a CPU show that everything works.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import torch
from vision_models import MODELS

import byteps.torch as bps

LEARNING_RATE = 0.01
CONFIDENCE = 1.96  # standard deviations: 95 % of a normal distribution lie within


def parse_arguments() -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--model", default="resnet50", choices=sorted(MODELS))
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank")
    parser.add_argument("--num-warmup-batches", type=int, default=10, help="not measured")
    parser.add_argument("--num-batches-per-iter", type=int, default=10)
    parser.add_argument("--num-iters", type=int, default=10)
    parser.add_argument("--num-classes", type=int, default=1000)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--no-cuda", action="store_true", help="use the CPU")
    parser.add_argument("--profiler", action="store_true", help="print where the time goes")
    parser.add_argument("--fp16-pushpull", action="store_true", help="send gradients as float16")
    parser.add_argument("--partition", type=int, default=None, help="bytes of a piece")
    return parser.parse_args()


class Benchmark:
    """A model, its optimizer, and one batch that is trained on again and again."""

    def __init__(self, arguments: argparse.Namespace, device: torch.device) -> None:
        self.arguments, self.device = arguments, device
        torch.manual_seed(bps.rank())
        self.model = MODELS[arguments.model](arguments.num_classes).to(device)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=LEARNING_RATE)
        compression = bps.Compression.fp16 if arguments.fp16_pushpull else bps.Compression.none
        self.optimizer = bps.DistributedOptimizer(
            optimizer, named_parameters=self.model.named_parameters(), compression=compression
        )
        bps.broadcast_parameters(self.model.state_dict(), root_rank=0)
        bps.broadcast_optimizer_state(self.optimizer, root_rank=0)
        size, count = arguments.image_size, arguments.batch_size
        self.images = torch.randn(count, 3, size, size, device=device)
        self.labels = torch.randint(arguments.num_classes, (count,), device=device)

    def step(self) -> None:
        """Train on the batch once."""
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.model(self.images), self.labels).backward()
        self.optimizer.step()

    def steps(self, count: int) -> float:
        """Return the images per second of this rank over some steps."""
        began = time.perf_counter()
        for _ in range(count):
            self.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return count * self.arguments.batch_size / (time.perf_counter() - began)


def say(text: str) -> None:
    """Print on one rank only."""
    if bps.rank() == 0:
        print(text, flush=True)


def spread(rates: list[float]) -> float:
    """Return half the width of the interval in which 95 % of the rates lie."""
    return CONFIDENCE * statistics.pstdev(rates)


def measure(benchmark: Benchmark, kind: str) -> None:
    """Print the rate of each iteration, and of all."""
    arguments = benchmark.arguments
    say("Running warmup...")
    benchmark.steps(arguments.num_warmup_batches)
    say("Running benchmark...")
    rates = []
    for number in range(arguments.num_iters):
        rates.append(benchmark.steps(arguments.num_batches_per_iter))
        say(f"Iter #{number}: {rates[-1]:.1f} img/sec per {kind}")
    mean, width, size = statistics.mean(rates), spread(rates), bps.size()
    say(f"Img/sec per {kind}: {mean:.1f} +-{width:.1f}")
    say(f"Total img/sec on {size} {kind}(s): {size * mean:.1f} +-{size * width:.1f}")


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments()
    if arguments.partition is not None:
        os.environ["BYTEPS_PARTITION_BYTES"] = str(arguments.partition)
    bps.init()
    cuda = torch.cuda.is_available() and not arguments.no_cuda
    device = torch.device("cuda", bps.local_rank()) if cuda else torch.device("cpu")
    kind = "GPU" if cuda else "CPU"
    say(f"Model: {arguments.model}")
    say(f"Batch size: {arguments.batch_size}")
    say(f"Number of {kind}s: {bps.size()}")
    benchmark = Benchmark(arguments, device)
    if arguments.profiler:
        with torch.profiler.profile() as profile:
            measure(benchmark, kind)
        say(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=20))
    else:
        measure(benchmark, kind)


if __name__ == "__main__":
    main()
