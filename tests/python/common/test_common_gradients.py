"""The exchange of gradients without a framework, against a native module of pure Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from byteps.common.errors import InvalidArgumentError, MismatchError, PeerLostError
from byteps.common.gradients.compression import NoneCompressor
from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.gradients.gradient_exchange import GradientExchange
from byteps.common.gradients.object_names import ModelNames, OptimizerNames
from byteps.common.gradients.step_exchange import StepExchange
from byteps.common.operations.byte_rows import address_of
from byteps.common.operations.call import start
from byteps.common.operations.reduction import Sum
from byteps.common.session import default
from byteps.common.types import DataType


@pytest.fixture(autouse=True)
def _initialized(core) -> None:
    default.init()


class Weight:
    """A parameter of a framework whose gradients are bytes."""

    gradient: bytes | None = None
    is_trained = True


class SentBytes:
    def __init__(self, weight: Weight) -> None:
        self.weight, self.gradient = weight, weight.gradient
        self.memory = bytearray(weight.gradient or bytes(2))

    def is_changed(self) -> bool:
        return self.gradient is not None and self.weight.gradient != self.gradient


# What is to be called when backward ends.
AT_END: list[Callable[[], None]] = []


class BytesGradients:
    def is_parameter(self, thing: object) -> bool:
        return isinstance(thing, Weight)

    def is_trained(self, parameter: Weight) -> bool:
        return parameter.is_trained

    def kind(self, parameter: Weight) -> str:
        return "bytes"

    def storage(self, parameter: Weight) -> int:
        return 0 if parameter.gradient is None else 1

    def start(self, unit, name_of) -> None:
        for number, entry in enumerate(unit.entries):
            sent = entry.sent = SentBytes(entry.parameter)
            place, call = address_of(sent.memory), unit.call
            if number:
                call.name = name_of(entry.name)
            finish = partial(lambda sent, _: sent, sent)
            handle = start(call, "cpu", DataType.UINT8, (2,), place, place, finish)
            unit.flights.append((handle, [entry]))

    def write_back(self, entry, result) -> None:
        if entry.is_used:
            entry.parameter.gradient = bytes(result.memory)

    def at_end_of_backward(self, function: Callable[[], None]) -> None:
        AT_END.append(function)


def exchange_of(count: int, **options) -> tuple[StepExchange[Weight], list[Weight]]:
    names = OptimizerNames()
    chosen = ExchangeOptions(NoneCompressor, op=Sum, **options)
    exchange: StepExchange[Weight] = StepExchange(chosen, BytesGradients(), names)
    weights = [Weight() for _ in range(count)]
    for number, weight in enumerate(weights):
        exchange.add(weight, f"w{number}")
    exchange.set_groups(0, weights)
    for weight in weights:
        assert exchange.watch(weight)
        assert not exchange.watch(weight)
    return exchange, weights


def backward(exchange: StepExchange[Weight], weights: list[Weight]) -> None:
    for weight in reversed(weights):
        weight.gradient = b"\1\2"
        exchange.on_gradient(weight)
    for function in AT_END:
        function()
    AT_END.clear()


def test_backward_ends_with_the_sums_when_all_were_computed(core) -> None:
    exchange, weights = exchange_of(2)
    for step in range(1, 3):
        backward(exchange, weights)
        assert [weight.gradient for weight in weights] == [b"\2\4"] * 2
        assert exchange.is_due
        exchange.finish()
        assert exchange.is_idle
        assert len(core.started) == 3 * step
    assert core.names()[:3] == [
        "byteps.Gradient.w1", "byteps.Gradient.w0", "byteps.optimizer.used",
    ]  # fmt: skip
    assert [item.priority for item in core.started[:3]] == [-1, 0, 1]


def test_passes_are_counted(core) -> None:
    exchange, weights = exchange_of(1, passes_per_step=2)
    backward(exchange, weights)
    assert core.started == []
    exchange.discard()
    for _ in range(2):
        backward(exchange, weights)
    assert len(core.started) == 2
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        backward(exchange, weights)
    with pytest.raises(AssertionError, match="zero_grad"):
        exchange.discard()
    exchange.finish()


def test_what_nobody_used_keeps_no_gradient_and_is_not_sent(core) -> None:
    exchange, weights = exchange_of(2)
    backward(exchange, weights[:1])
    exchange.finish()
    assert weights[1].gradient is None
    assert core.names() == ["byteps.Gradient.w0", "byteps.optimizer.used"]


def test_what_was_used_before_is_sent_as_zeros(core) -> None:
    exchange, weights = exchange_of(2)
    backward(exchange, weights)
    exchange.finish()
    weights[1].gradient = None
    core.started.clear()
    exchange.on_gradient(weights[0])
    exchange.finish()
    assert core.names().count("byteps.Gradient.w1") == 1
    assert weights[1].gradient is None


def test_a_gradient_that_is_changed_on_its_way_is_an_error_of_all(core) -> None:
    exchange, weights = exchange_of(2)
    backward(exchange, weights[:1])
    weights[0].gradient = b"\0\0"
    with pytest.raises(InvalidArgumentError, match="this rank changed the gradient of 'w0'"):
        exchange.finish()
    assert exchange.is_idle
    assert all(item.complete for item in core.started)


def test_gradients_that_other_ranks_do_not_have_are_not_waited_for(core) -> None:
    exchange, weights = exchange_of(2)
    core.failing["byteps.optimizer.used"] = MismatchError.code
    backward(exchange, weights)
    with pytest.raises(MismatchError):
        exchange.finish()
    assert not any(item.complete for item in core.started if "Gradient" in item.name)


def test_after_an_error_the_other_gradients_have_come_in(core) -> None:
    exchange, weights = exchange_of(2)
    core.failing["byteps.Gradient.w1"] = PeerLostError.code
    backward(exchange, weights)
    with pytest.raises(PeerLostError):
        exchange.finish()
    assert weights[0].gradient == b"\2\4"
    assert exchange.is_idle


def test_groups_that_make_no_sense() -> None:
    exchange, weights = exchange_of(2)
    stranger = Weight()
    for groups, text in (
        (-1, "cannot be negative"),
        (1.5, "whole number"),
        ([[stranger]], "Weight that is none"),
        ([weights, [weights[0]]], "in two groups"),
    ):
        with pytest.raises(ValueError, match=text):
            exchange.set_groups(groups, weights)


def test_one_by_one(core) -> None:
    names = OptimizerNames()
    options = ExchangeOptions(NoneCompressor, op=Sum)
    exchange: GradientExchange[Weight] = GradientExchange(options, BytesGradients(), names)
    entries = [exchange.add(Weight(), name) for name in "ab"]
    entries[0].parameter.gradient = b"\3\3"
    assert exchange.count(entries[0])
    exchange.send(entries[0].unit)
    question = exchange.ask(entries)
    for _ in range(2):
        assert question.learn() is None
    assert [entry.is_used for entry in entries] == [True, False]
    assert exchange.is_unknown(entries[1].unit)
    exchange.receive(entries[0].unit)
    assert entries[0].parameter.gradient == b"\6\6"


def test_names_follow_the_session(core) -> None:
    first, second = OptimizerNames(), OptimizerNames()
    assert (first.gradient("a"), second.gradient("a")) == ("Gradient.a", "Gradient.a#2")
    assert (first.owner, second.told("a")) == ("optimizer", "a#2")
    model, copied = ModelNames(take_now=True), ModelNames(take_now=False)
    assert (model.prefix, copied.prefix) == ("", "")
    assert not model.follow()
    assert copied.follow()
    assert copied.gradient("a") == "Gradient.model#2.a"
    assert copied.owner == "model#2.DistributedDataParallel"
    default.shutdown()
    assert not copied.follow()
    default.init()
    assert second.follow()
    assert second.gradient("a") == "Gradient.a#2"
