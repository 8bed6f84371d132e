"""A script as Horovod's documentation shows them, with the import changed: an embedding's words."""

import torch
import torch.nn.functional as F  # noqa: N812

import byteps.torch as hvd

hvd.init()
torch.set_num_threads(1)
rank, size = hvd.rank(), hvd.size()
WORDS, CONTEXT, STEPS = 40, 3, 12


class Model(torch.nn.Module):
    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(WORDS, 4, sparse=sparse, dtype=torch.float64)
        self.bags = torch.nn.EmbeddingBag(WORDS, 4, mode="sum", sparse=sparse, dtype=torch.float64)
        self.last = torch.nn.Linear(8, WORDS, dtype=torch.float64)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.last(torch.cat([self.table(words).mean(1), self.bags(words)], 1))


def batch_of(owner: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Each rank reads words of its own corner, and some that all have."""
    generator = torch.Generator().manual_seed(100 * step + owner)
    words = torch.randint(0, 10 + 5 * owner, (6, CONTEXT), generator=generator)
    return words, words.sum(1) % WORDS


def new_model(sparse: bool) -> Model:
    torch.manual_seed(5)
    return Model(sparse)


def alone() -> Model:
    model = new_model(sparse=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4)
    for step in range(STEPS):
        optimizer.zero_grad()
        for owner in range(size):
            words, target = batch_of(owner, step)
            (F.cross_entropy(model(words), target) / size).backward()
        optimizer.step()
    return model


def together(sparse_as_dense: bool, passes: int = 1) -> Model:
    model = new_model(sparse=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        sparse_as_dense=sparse_as_dense,
        backward_passes_per_step=passes,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for step in range(STEPS):
        optimizer.zero_grad()
        words, target = batch_of(rank, step)
        for part, answer in zip(words.chunk(passes), target.chunk(passes), strict=True):
            (F.cross_entropy(model(part), answer) / passes).backward()
        optimizer.step()
    return model


expected = alone()
for sparse_as_dense in (False, True):
    for passes in (1, 2):
        model = together(sparse_as_dense, passes)
        for parameter, right in zip(model.parameters(), expected.parameters(), strict=True):
            assert torch.allclose(parameter, right), (sparse_as_dense, passes)
        hvd.check_replicas(model)

# Optimizers that take only sparse gradients, and rows that some ranks do not have.
table = torch.nn.Embedding(WORDS, 2, sparse=True)
hvd.broadcast_parameters(table.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SparseAdam(table.parameters(), lr=0.1), named_parameters=table.named_parameters()
)
before = table.weight.detach().clone()
for _ in range(3):
    optimizer.zero_grad()
    table(torch.tensor([rank, rank, WORDS - 1])).sum().backward()
    optimizer.step()
moved = (table.weight.detach() != before).any(1)
assert moved.tolist() == [row < size or row == WORDS - 1 for row in range(WORDS)]
hvd.check_replicas(table)

# The operation by hand: what it returns is called to get the result.
gradient = torch.zeros(size + 1, 3)
gradient[[0, rank + 1]] = 1.0
gradient = gradient.to_sparse(1)
result = hvd.sparse_allreduce_async(gradient, name="by hand", op=hvd.Average)()
assert result.is_sparse
assert torch.allclose(result.to_dense()[0], torch.ones(3))
assert torch.allclose(result.to_dense()[1:], torch.full((size, 3), 1 / size))
print("all right")
