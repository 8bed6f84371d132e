"""Operations that torch.compile keeps whole: `torch.ops.byteps.*`, without a graph break."""

from byteps.torch.compiled.push_pull import push_pull_start, push_pull_wait

__all__ = ["push_pull_start", "push_pull_wait"]
