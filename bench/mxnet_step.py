"""What a step of MXNet costs with byteps, and whether the exchange overlaps with compute.

    PYTHON bench/mxnet_step.py [--repeats 20] [--width 512]

PYTHON is one with MXNet, such as that of .venv-mxnet-new after `./dev lane frameworks`.

- **Cost.** One worker, no server: forward and backward of a network and an update of its weights,
  plain, and with an exchange of every gradient, to which nobody else contributes. The difference is
  what byteps costs.
- **Overlap.** Two workers, run with `bps run -np 2`: rank 1 is late with the gradient of the last
  layer, which backward has first. A step with exchanges is compared with a step without them, and
  with an exchange for which rank 1 is late.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import mxnet as mx
from mxnet import autograd, gluon, nd
from step_times import LATE_S, print_overlap

import byteps.mxnet as bps

LAYERS = 16
ROWS = 64


def make_net(layers: int, width: int) -> Any:
    net = gluon.nn.HybridSequential()
    for _ in range(layers):
        net.add(gluon.nn.Dense(width, "tanh", use_bias=False, in_units=width))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def make_step(net: Any, exchange: Callable[[list[Any]], object]) -> Callable[[], None]:
    batch = nd.random.normal(shape=(ROWS, net[0].weight.shape[1]))
    params = list(net.collect_params().values())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01}, kvstore=None)

    def step() -> None:
        with autograd.record():
            loss = (net(batch) ** 2).mean()
        loss.backward()
        exchange([param.grad() for param in params])
        trainer.update(1)

    return step


def pushed(gradients: list[Any], names: str = "gradient") -> None:
    """Exchange gradients as DistributedTrainer does."""
    from byteps.common.operations.calls import push_pull_call
    from byteps.mxnet.arrays import exchange_in_place

    for i, gradient in enumerate(gradients):
        exchange_in_place(push_pull_call(True, f"{names} {i}", -i), gradient, is_plain=True)


def measure_cost(net: Any, repeats: int) -> None:
    steps = (make_step(net, lambda gradients: None), make_step(net, pushed))
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(5 * repeats):  # by turns, as other programs come and go
        for step, found in zip(steps, times, strict=True):
            begin = time.perf_counter()
            step()
            nd.waitall()
            if number > 1:
                found.append((time.perf_counter() - begin) * 1000)
    for name, pick in (("least", 0), ("lower quarter", len(times[0]) // 4)):
        one, other = (sorted(found)[pick] for found in times)
        each = (other - one) * 1000 / LAYERS
        print(f"{name}: plain {one:.1f} ms, with exchanges {other:.1f} ms: {each:.0f} us each")


class Late(mx.operator.CustomOp):
    """Takes its time."""

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        time.sleep(LATE_S)
        self.assign(out_data[0], req[0], in_data[0])


@mx.operator.register("late")
class LateProperties(mx.operator.CustomOpProp):
    """What MXNet asks about it."""

    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Late:
        return Late()


def measure_overlap(net: Any, repeats: int) -> None:
    def wait() -> None:
        time.sleep(LATE_S if bps.rank() else 0.0)  # rank 1 has another rank wait
        bps.allreduce(nd.ones((1,)), name="alone").wait_to_read()

    def exchange(gradients: list[Any]) -> None:
        if bps.rank() == 1:
            # What only rank 1 waits for is not on the way of rank 0's backward.
            gradients = [*gradients[:-1], nd.Custom(gradients[-1], op_type="late")]
        pushed(gradients)

    backward, both = (make_step(net, one) for one in (lambda gradients: None, exchange))
    print_overlap(*(ended(one) for one in (backward, wait, both)), repeats)


def ended(step: Callable[[], object]) -> Callable[[], None]:
    """Return a step that waits for MXNet's engine."""

    def call() -> None:
        step()
        nd.waitall()

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--width", type=int, default=512, help="of each layer")
    arguments = parser.parse_args()
    bps.init()
    net = make_net(LAYERS if bps.size() == 1 else 3 * LAYERS, arguments.width)
    if bps.size() == 1:
        measure_cost(net, arguments.repeats)
    else:
        measure_overlap(net, arguments.repeats)
    bps.shutdown()


main()
