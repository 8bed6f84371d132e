"""How long is a step of torch's own modules over byteps, beside the same over Gloo?

    ./dev bench torch_doors [--ranks 2] [--rounds 7] [--steps 30]

DistributedDataParallel and FSDP2 train a network of eight square layers. Both backends are groups
of the same processes and take turns, a round each, so a slow moment of the machine hits both. A
small width shows what the calls cost, a large one what the bytes cost. Hugging Face's Trainer makes
its group itself: there each round is a start with one backend, and one with the other. It needs
transformers and Accelerate. Tables go to bench-out/torch_doors.md and .json.
"""

from __future__ import annotations

import argparse
import functools
import gc
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from harness.command import settings_of
from harness.jobs import free_port, median
from harness.programs import RESULTS
from harness.report import Report
from torch.distributed.fsdp import fully_shard

BACKENDS = ("byteps", "gloo")
LAYERS, BATCH = 8, 16
TRAINER_STEPS = 60
# Of each round, until caches and buffers are warm.
UNCOUNTED = 3


def network(width: int) -> torch.nn.Module:
    """Return layers with an activation between them."""
    torch.manual_seed(0)
    layers = [
        layer for _ in range(LAYERS) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())
    ]
    return torch.nn.Sequential(*layers)


def ddp(width: int, group: dist.ProcessGroup) -> torch.nn.Module:
    """Return the network in DistributedDataParallel."""
    return torch.nn.parallel.DistributedDataParallel(network(width), process_group=group)


def fsdp(width: int, group: dist.ProcessGroup) -> torch.nn.Module:
    """Return the network in FSDP2, each layer a unit of its own."""
    mesh = dist.DeviceMesh.from_group(group, "cpu")
    model = network(width)
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


CASES: dict[str, Callable[[dist.ProcessGroup], torch.nn.Module]] = {
    "DDP, width 256": functools.partial(ddp, 256),
    "DDP, width 1024": functools.partial(ddp, 1024),
    "FSDP2, width 256": functools.partial(fsdp, 256),
    "FSDP2, width 1024": functools.partial(fsdp, 1024),
}


def step_of(model: torch.nn.Module, width: int) -> Callable[[], None]:
    """Return a function that takes a step of training."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(BATCH, width)

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def measured(step: Callable[[], None], steps: int) -> tuple[float, float]:
    """Return the milliseconds of a step, and those of the processor in all threads of the rank."""
    for _ in range(UNCOUNTED):
        step()
    dist.barrier()
    seconds, worked_s = [], time.process_time()
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return 1000 * median(seconds), 1000 * (time.process_time() - worked_s) / steps


def rank_of_modules(rank: int, size: int, port: int, rounds: int, steps: int, file: str) -> None:
    """Be a rank: measure all cases; rank 0 writes milliseconds, a line for each round: a step over
    byteps and over Gloo, and the processor's time of each."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    lines = []
    for name, make in CASES.items():
        width = int(name.split()[-1])
        step_with = {b: step_of(make(group), width) for b, group in groups.items()}
        for _ in range(rounds):
            times = [measured(step_with[backend], steps) for backend in BACKENDS]
            lines.append(
                ";".join([name, *(str(one) for pair in zip(*times, strict=True) for one in pair)])
            )
        del step_with
        gc.collect()
    if rank == 0:
        Path(file).write_text("\n".join(lines))
    dist.barrier()


def times_of_modules(arguments: argparse.Namespace) -> dict[str, list[tuple[float, ...]]]:
    """Return, of each case, what rank 0 has measured, by round."""
    with tempfile.NamedTemporaryFile() as file:
        words = (arguments.ranks, free_port(), arguments.rounds, arguments.steps, file.name)
        mp.spawn(rank_of_modules, args=words, nprocs=arguments.ranks)
        rows = [line.split(";") for line in Path(file.name).read_text().splitlines()]
    found: dict[str, list[tuple[float, ...]]] = {}
    for name, *times in rows:
        found.setdefault(name, []).append(tuple(map(float, times)))
    return found


def rank_of_trainer() -> None:
    """Be a rank of a program of Trainer; rank 0 prints the milliseconds of a step."""
    import transformers

    torch.set_num_threads(1)
    stamps: list[float] = []

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, *_: object, **__: object) -> None:
            stamps.append(time.perf_counter())

    config = transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
    )
    data = [{"input_ids": torch.arange(32) + i, "labels": torch.arange(32)} for i in range(2048)]
    with tempfile.TemporaryDirectory() as folder:
        trainer = transformers.Trainer(
            model=transformers.LlamaForCausalLM(config),
            train_dataset=[{k: v % 256 for k, v in row.items()} for row in data],
            callbacks=[Clock()],
            args=transformers.TrainingArguments(
                output_dir=folder,
                use_cpu=True,
                max_steps=TRAINER_STEPS,
                per_device_train_batch_size=4,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                logging_steps=10 * TRAINER_STEPS,
            ),
        )
        trainer.train()
    steps = [1000 * (b - a) for a, b in itertools.pairwise(stamps)]
    if trainer.args.process_index == 0:
        print(f"step {median(steps[UNCOUNTED:])}", flush=True)


def time_of_trainer(backend: str, ranks: int) -> float:
    """Return the milliseconds of a step of Trainer."""
    words = ("--nproc-per-node", str(ranks), "--master-port", str(free_port()))
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words, __file__, "--as-rank"],
        env={**os.environ, **({"BYTEPS_TORCH_AS": "gloo"} if backend == "byteps" else {})},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("step "))
    return float(line.split()[1])


def times_of_trainer(arguments: argparse.Namespace) -> list[tuple[float, ...]]:
    """Return the milliseconds of a step of Trainer over byteps and over Gloo, by round."""
    return [
        tuple(time_of_trainer(backend, arguments.ranks) for backend in BACKENDS)
        for _ in range(arguments.rounds)
    ]


def add_row(report: Report, name: str, times: list[tuple[float, ...]]) -> None:
    """Add the median of the rounds, and how far the rounds' ratios are apart."""
    ratios = sorted(ours / theirs for ours, theirs, *_ in times)
    ours, theirs, *worked = (median(list(column)) for column in zip(*times, strict=True))
    row = {
        "what": name,
        "byteps, ms": round(ours, 2),
        "Gloo, ms": round(theirs, 2),
        "byteps / Gloo": round(median(ratios), 2),
        "least": round(ratios[0], 2),
        "most": round(ratios[-1], 2),
        "CPU, ms: byteps": round(worked[0], 2) if worked else None,
        "Gloo": round(worked[1], 2) if worked else None,
    }
    report.add(row, {"rounds": times})


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./dev bench torch_doors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=30, help="in a round")
    parser.add_argument("--no-trainer", action="store_true", help="only torch's own modules")
    parser.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--output", default=str(RESULTS / "torch_doors"), help="without ending")
    arguments = parser.parse_args()
    if arguments.as_rank:
        rank_of_trainer()
        return
    report = Report(
        f"a step of torch's modules, {arguments.ranks} ranks", arguments.output,
        settings_of(arguments),
    )  # fmt: skip
    for name, times in times_of_modules(arguments).items():
        add_row(report, name, times)
    if not arguments.no_trainer:
        add_row(report, "Trainer", times_of_trainer(arguments))
    report.finish()


if __name__ == "__main__":
    main()
