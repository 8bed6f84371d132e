"""A script as Horovod's documentation shows them, with the import changed: goes on after a stop."""

import argparse
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812

import byteps.torch as hvd

parser = argparse.ArgumentParser(description="digits")
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--base-lr", type=float, default=0.02)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--fp16-allreduce", action="store_true", default=True)
parser.add_argument("--seed", type=int, default=42)
args = parser.parse_args()

hvd.init()
torch.manual_seed(args.seed + hvd.rank())  # so weights begin differently, until they are broadcast
torch.set_num_threads(1)
args.cuda = torch.cuda.is_available()
if args.cuda:
    torch.cuda.set_device(hvd.local_rank())

# Only the first rank knows where the checkpoints are.
folder = tempfile.TemporaryDirectory() if hvd.rank() == 0 else None
folder_name = hvd.broadcast_object(folder.name if folder else None, root_rank=0, name="folder")


def digits(count: int, seed: int) -> torch.utils.data.TensorDataset:
    """Pictures of a bar in one of four places."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 4, (count,), generator=generator)
    images = 0.3 * torch.randn(count, 1, 12, 12, generator=generator)
    for image, label in zip(images, labels.tolist(), strict=True):
        image[0, 3 * label : 3 * label + 3] += 1.0
    return torch.utils.data.TensorDataset(images, labels)


train_dataset, test_dataset = digits(256, seed=1), digits(70, seed=2)
train_sampler = torch.utils.data.distributed.DistributedSampler(
    train_dataset, num_replicas=hvd.size(), rank=hvd.rank()
)
train_loader = torch.utils.data.DataLoader(
    train_dataset, batch_size=args.batch_size, sampler=train_sampler
)
test_sampler = torch.utils.data.distributed.DistributedSampler(
    test_dataset, num_replicas=hvd.size(), rank=hvd.rank()
)
test_loader = torch.utils.data.DataLoader(test_dataset, batch_size=16, sampler=test_sampler)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.drop = torch.nn.Dropout2d(0.1)
        self.last = torch.nn.Linear(100, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(F.max_pool2d(self.drop(self.norm(self.conv(x))), 2))
        return F.log_softmax(self.last(x.flatten(1)), dim=1)


class Metric:
    """An average over all ranks."""

    def __init__(self, name: str) -> None:
        self.name, self.sum, self.count = name, torch.tensor(0.0), torch.tensor(0.0)

    def update(self, value: torch.Tensor) -> None:
        self.sum += hvd.allreduce(value.detach().cpu(), name=self.name)
        self.count += 1

    @property
    def avg(self) -> float:
        return (self.sum / self.count).item()


def learning_rate(epoch: int) -> float:
    """Warm up from the rate of one rank to that of all."""
    return args.base_lr * (1 + min(epoch, 2) / 2 * (hvd.size() - 1))


def path_of(epoch: int) -> Path:
    return Path(folder_name) / f"checkpoint-{epoch}.pth.tar"


def run(first_life: bool) -> float:
    """Train; the first life is cut short."""
    resume_from_epoch = 0
    for try_epoch in range(args.epochs, 0, -1):
        if hvd.rank() == 0 and path_of(try_epoch).exists():
            resume_from_epoch = try_epoch
            break
    resume_from_epoch = hvd.broadcast(
        torch.tensor(resume_from_epoch), root_rank=0, name="resume_from_epoch"
    ).item()
    assert resume_from_epoch == (0 if first_life else args.epochs // 2)

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr, momentum=args.momentum)
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), compression=compression
    )
    if resume_from_epoch > 0 and hvd.rank() == 0:
        checkpoint = torch.load(path_of(resume_from_epoch))
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    if resume_from_epoch > 0:
        assert optimizer.state_dict()["state"], "the momentum of the first life"
        assert optimizer.param_groups[0]["lr"] == learning_rate(resume_from_epoch - 1)

    for epoch in range(resume_from_epoch, args.epochs):
        model.train()
        train_sampler.set_epoch(epoch)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(epoch)
        for data, target in train_loader:
            optimizer.zero_grad()
            F.nll_loss(model(data), target).backward()
            optimizer.step()
        if hvd.rank() == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, path_of(epoch + 1))
        if first_life and epoch + 1 == args.epochs // 2:
            break
    return test(model)


def test(model: torch.nn.Module) -> float:
    model.eval()
    loss, accuracy = Metric("test_loss"), Metric("test_accuracy")
    with torch.no_grad():
        for data, target in test_loader:
            output = model(data)
            loss.update(F.nll_loss(output, target))
            accuracy.update((output.argmax(1) == target).float().mean())
    if hvd.rank() == 0:
        print(f"test: loss {loss.avg:.4f}, accuracy {accuracy.avg:.3f}", flush=True)
    return accuracy.avg


run(first_life=True)
hvd.shutdown()
hvd.init()
last = run(first_life=False)
assert last > 0.95, last
if folder is not None:
    folder.cleanup()
print("all right")
