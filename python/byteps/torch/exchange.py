"""The exchange of gradients behind an optimizer: during backward, in units of one or more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, cast

import torch

from byteps.common import default
from byteps.common.call import Call
from byteps.common.errors import BytepsError, MismatchError
from byteps.common.exchange_options import ExchangeOptions, check_passes, is_whole
from byteps.common.own_name import ending_of
from byteps.common.pending import Handle
from byteps.common.process_sets import global_process_set
from byteps.common.reduction import Average, operation_of
from byteps.torch.gradient_hooks import watch_gradient
from byteps.torch.grouped_allreduce import start_grouped_allreduce
from byteps.torch.replicas import check_replicas
from byteps.torch.slots import Slot, Unit
from byteps.torch.sparse import SparseHandle, sparse_allreduce_async
from byteps.torch.submit import exchange, finished
from byteps.torch.usage import (
    NO_GRADIENT,
    SentGradient,
    Usage,
    changed_error,
    layout_of,
    usage_call,
    zeros_of,
)

_TOO_MANY_PASSES = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). "
    "Increase backward_passes_per_step to accumulate gradients locally."
)


def _parameters_of(group: object) -> Iterable[object]:
    """Return what is in a group; it is found to be no parameter if the group is no list."""
    return group if isinstance(group, Iterable) and not torch.is_tensor(group) else [group]


class Exchange:
    """Exchanges the gradients of some parameters: once each in a step."""

    def __init__(self, options: ExchangeOptions) -> None:
        self.options = options
        self._passes_per_step = self._passes_wanted = options.passes_per_step
        self._passes = 0  # of this step: the most that a parameter has had
        self._slots: dict[torch.Tensor, Slot] = {}
        self._watched: list[Slot] = []
        self._flying: list[Unit] = []
        self._settled = False
        # The end of backward has settled the step, and nobody has asked for that; it may have
        # failed, and whoever asks is told.
        self._is_early = False
        self._early_error: Exception | None = None
        self._units_in_step: int | None = None  # see _trained_units
        # What keeps its names apart from those of earlier optimizers: all may be on their way.
        self._ending = ending_of(lambda: options.process_set.process_set_id)
        # Who has a gradient of what: asked once in a step, of these parameters.
        self._usage: Usage | None = None
        self._asked: list[Slot] = []
        self._own_changed: list[str] = []  # while they were on their way, on this rank
        self._error: BytepsError | None = None  # what the step ends with when all has come in
        self._question: Call | None = None

    @property
    def is_active(self) -> bool:
        """Whether there is anybody to exchange with."""
        process_set = self.options.process_set
        if process_set is global_process_set:
            return default.size() > 1
        return process_set.included() and process_set.size() > 1

    @property
    def is_idle(self) -> bool:
        """Whether no gradient was computed since the last step or `finish`."""
        return not self._passes and not self._settled and self._early_error is None

    @property
    def is_settled(self) -> bool:
        """Whether the gradients of this step are averages, and somebody has asked for them."""
        return self._settled and not self._flying and not self._is_early

    @property
    def is_due(self) -> bool:
        """Whether all passes of a step were made, and the gradients are no averages yet.

        All ranks have made them then, whichever parameters theirs have used and sent.
        """
        is_complete = self._passes >= self._passes_per_step and not self._settled
        return is_complete or self._is_early or bool(self._flying)

    def add(self, parameter: torch.Tensor, name: str) -> None:
        """Name a parameter. The order of the calls is the model's: the first is most urgent."""
        self._slots[parameter] = Slot(parameter, name, -len(self._slots))

    def knows(self, parameter: torch.Tensor) -> bool:
        """Return whether the parameter has a name."""
        return parameter in self._slots

    def names(self) -> list[str]:
        """Return all names, as they are on their way."""
        return [slot.name + self._ending.text for slot in self._slots.values()]

    def next_name(self) -> str:
        """Return a name for a parameter that has none."""
        return f"push_pull.noname.{len(self._slots)}"

    def set_groups(
        self, groups: int | Sequence[Sequence[torch.Tensor]], own: Collection[torch.Tensor]
    ) -> None:
        """Make gradients travel together: a number of groups of neighbours, or lists of them.

        Parameters of different types do not share a group. `own` are those of the optimizer; others
        may have names.
        """
        if not isinstance(groups, Iterable):
            if not is_whole(groups):
                raise ValueError(
                    f"groups should be a whole number, or lists of parameters; it is {groups!r}."
                )
            if groups < 0:
                raise ValueError(f"the number of groups is {groups}; it cannot be negative.")
            slots = [slot for p, slot in self._slots.items() if p.requires_grad and p in own]
            count = min(groups, len(slots))
            lists = [slots[len(slots) * i // count : len(slots) * (i + 1) // count]
                     for i in range(count)]  # fmt: skip
        else:
            lists = [[self._slot_of(p, own) for p in _parameters_of(group)] for group in groups]
            if len({id(slot) for group in lists for slot in group}) != sum(map(len, lists)):
                raise ValueError("a parameter is in two groups.")
        for parameter in own:
            self._slots[parameter].is_own = True
        number = 0
        for group in lists:
            by_type: dict[torch.dtype, list[Slot]] = {}
            for slot in group:
                by_type.setdefault(slot.parameter.dtype, []).append(slot)
            for same_type in by_type.values():
                self._make_unit(same_type, f"group.{number}")
                number += 1

    def _slot_of(self, tensor: object, own: Collection[torch.Tensor]) -> Slot:
        if not isinstance(tensor, torch.Tensor) or tensor not in own:
            raise ValueError(
                "groups should be a number, or lists of parameters of the optimizer; there is "
                f"{type(tensor).__name__} that is none."
            )
        return self._slots[tensor]

    def _make_unit(self, slots: list[Slot], name: str) -> Unit:
        options = self.options
        call = Call(
            operation_of(options.op),
            self._call_name(name),
            priority=max(slot.priority for slot in slots),
            process_set=options.process_set,
            prescale=1.0 / options.predivide_factor,
            postscale=options.predivide_factor,
        )
        unit = Unit(slots, name, call)
        for slot in slots:
            slot.unit = unit
        return unit

    def watch(self, parameter: torch.Tensor) -> None:
        """Send the parameter's gradient as soon as backward has finished it."""
        slot = self._slots.get(parameter)
        if slot is None:
            self.add(parameter, self.next_name())
            slot = self._slots[parameter]
            slot.is_own = True
        if slot.is_watched:
            return
        slot.is_watched = True
        if slot.unit is None:
            self._make_unit([slot], slot.name)
        self._watched.append(slot)
        self._units_in_step = None
        watch_gradient(parameter, self, Exchange._on_gradient)

    def _call_name(self, name: str) -> str:
        return f"Gradient.{name}{self._ending.text}"

    def _full_name(self, slot: Slot) -> str:
        """Return what must be equal on all ranks: the name, and that of the group if it has one."""
        name, unit = slot.name + self._ending.text, cast(Unit, slot.unit)
        return name if len(unit.slots) == 1 else f"{name} in {unit.call.name}"

    def _follow_session(self) -> None:
        """In a new session, have names there, and know as little as ranks that are new in it."""
        if not self._ending.follow():
            return
        self._question = None
        for slot in self._slots.values():
            slot.layout = NO_GRADIENT
            if slot.unit is not None:
                slot.unit.call.name = self._call_name(slot.unit.name)

    def set_passes(self, passes: int) -> None:
        """Expect so many backward passes before a step: the next one, if this one has begun."""
        check_passes(passes)
        self._passes_wanted = passes
        if self.is_idle:
            self._passes_per_step = passes

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        if not self.is_active:
            return
        slot = self._slots[parameter]
        if self.options.op is Average and self.is_settled:
            # The step was skipped (GradScaler) and the gradients cleared behind our back. If they
            # were not, what comes on top of an average has the same average.
            self.begin_step()
        if self._settled or slot.passes == self._passes_per_step:
            raise AssertionError(_TOO_MANY_PASSES)
        slot.passes += 1
        self._passes = max(self._passes, slot.passes)
        if slot.passes < self._passes_per_step:
            return
        unit = cast(Unit, slot.unit)
        unit.ready += 1
        if unit.ready == len(unit.slots):
            self._submit(unit)
            if len(self._flying) == self._trained_units():
                # As it is with torch's own DistributedDataParallel: what changes gradients after
                # backward, for instance clips them, finds the averages.
                torch.autograd.Variable._execution_engine.queue_callback(self._settle_early)

    def _trained_units(self) -> int:
        """Return how many units leave in a step that uses all parameters; 0 when some parameter is
        not watched yet, so that nobody knows."""
        if self._units_in_step is None:
            trained = [slot for slot in self._slots.values() if slot.is_trained]
            is_known = all(slot.is_watched for slot in trained)
            self._units_in_step = len({id(slot.unit) for slot in trained}) if is_known else 0
        return self._units_in_step

    def _settle_early(self) -> None:
        """Settle the step at the end of backward; who asks for it later finds it done."""
        if self._settled or len(self._flying) != self._trained_units():
            return
        try:
            self._settle()
            self._is_early = True
        except (BytepsError, AssertionError) as error:
            self._early_error = error

    def _submit(self, unit: Unit) -> None:
        dense: list[Slot] = []
        wires: list[torch.Tensor] = []
        self._follow_session()
        self._flying.append(unit)
        for slot in unit.slots:
            slot.own_layout = self._layout_of(slot)
            gradient = self._gradient_of(slot)
            slot.sent = SentGradient(slot.parameter)
            if gradient.is_sparse:
                handle = sparse_allreduce_async(
                    gradient, self._call_name(slot.name), self.options.op, unit.call.process_set
                )
                unit.flights.append((handle, [slot]))
                continue
            wire, slot.context = self.options.compression.compress(gradient)
            wires.append(wire)
            if slot.parameter.requires_grad:
                slot.wire = wire
                dense.append(slot)
        if len(unit.slots) == 1 and wires:
            unit.flights.append((exchange(unit.call, wires[0], wires[0]), dense))
        elif wires:
            unit.flights.append((start_grouped_allreduce(unit.call, wires, wires), dense))

    def _gradient_of(self, slot: Slot) -> torch.Tensor:
        parameter = slot.parameter
        gradient = parameter.grad
        if not parameter.requires_grad:  # frozen meanwhile: it only keeps its place in a group
            return torch.zeros_like(parameter)
        if gradient is None:  # unused in this step; the other ranks may have used it
            return zeros_of(parameter, slot.layout)
        if gradient.is_sparse:
            if not self.options.sparse_as_dense:
                return gradient
            gradient = gradient.to_dense()
            if not self.options.sparse_results:
                parameter.grad = gradient
        return gradient.detach()

    def finish(self) -> None:
        """Send what was not sent, wait for everything, write the averages back; begin again."""
        self.settle()
        self.begin_step()

    def settle(self) -> None:
        """Send what was not sent, wait for everything, write the averages back.

        Raises on every rank if some rank has changed a gradient that was on its way.
        """
        if self._early_error is not None:
            error, self._early_error = self._early_error, None
            raise error
        if self._is_early:
            self._is_early = False
        else:
            self._settle()

    def _settle(self) -> None:
        units = [slot.unit for slot in self._watched if slot.parameter.requires_grad]
        rest = [u for u in dict.fromkeys(units) if u and not u.is_done and not u.flights]
        if not self._settled and self._usage is None:
            self._ask()
        errors: list[BytepsError] = []
        results: list[tuple[Slot, Any]] = []
        try:
            self._submit_rest(rest)
            self._learn()
        except MismatchError:
            self._abandon()
            raise
        except BytepsError as error:
            errors.append(error)
        if self._error is not None:
            errors.append(self._error)
            self._error = None
        flying, self._flying = self._flying, []
        for unit in flying:
            unit.is_done = True
            for handle, slots in unit.flights:
                try:
                    result = handle() if callable(handle) else finished(handle)
                except BytepsError as error:
                    errors.append(error)
                    continue
                results += [(slot, result) for slot in slots]
            unit.flights = []
        for slot, result in results:
            self._write_back(slot, result)
        if errors:
            self.begin_step()
            raise errors[0]

    def _ask(self) -> None:
        """Start to ask who has a gradient of what."""
        self._follow_session()
        trained = [slot for slot in self._watched if slot.parameter.requires_grad]
        if self._question is None or self._asked != trained:
            self._asked = trained
            names = [self._full_name(slot) for slot in trained]
            name = f"optimizer{self._ending.text}"
            self._question = usage_call(name, names, self.options.process_set)
        layouts = [slot.own_layout or self._layout_of(slot) for slot in self._asked]
        changed = [slot.is_changed() for slot in self._asked]
        self._own_changed = [slot.name for slot in self._asked if slot.is_changed()]
        self._usage = Usage(layouts, changed, self._question)
        self._settled = True

    def _abandon(self) -> None:
        """Wait for no gradient: some are of parameters that other ranks do not have."""
        self._usage = None
        self._settled = True
        for unit in self._flying:
            for handle, _ in unit.flights:
                number = handle.handle if isinstance(handle, SparseHandle) else handle
                default.pending().abandon(number)
            unit.flights = []
        self._flying = []
        self.begin_step()

    def _layout_of(self, slot: Slot) -> int:
        return layout_of(slot.parameter, self.options.sparse_as_dense)

    def _learn(self) -> None:
        """Wait until it is known who has a gradient of what."""
        usage, self._usage = self._usage, None
        if usage is None:
            return
        layouts, changed = usage.wait()
        for slot, layout in zip(self._asked, layouts, strict=True):
            slot.is_used = layout != NO_GRADIENT
            slot.layout = layout or slot.layout
        if changed:
            names = [self._asked[number].name for number in changed]
            self._error = changed_error(names, self._own_changed)

    def _submit_rest(self, rest: list[Unit]) -> None:
        """Send gradients that backward did not finish.

        Nothing is sent of what nobody has ever used. A rank that sees a parameter unused before
        all know how its gradients are stored waits until it is told.
        """
        unknown = []
        for unit in rest:
            if self._usage is not None and self._is_unknown(unit):
                unknown.append(unit)
            else:
                self._submit(unit)
        if unknown:
            self._learn()
        for unit in unknown:
            if any(slot.layout != NO_GRADIENT for slot in unit.slots):
                self._submit(unit)
            else:
                unit.is_done = True

    @staticmethod
    def _is_unknown(unit: Unit) -> bool:
        return any(
            slot.parameter.grad is None and slot.layout == NO_GRADIENT
            for slot in unit.slots
            if slot.parameter.requires_grad
        )

    def _write_back(self, slot: Slot, result: Any) -> None:
        parameter, wire = slot.parameter, slot.wire
        if parameter.grad is None and not slot.is_used:  # nobody used it: as if alone
            slot.wire = slot.context = None
            return
        if wire is None:
            parameter.grad = result  # sparse
            return
        average = self.options.compression.decompress(wire, slot.context)
        slot.wire = slot.context = None
        if self.options.sparse_results:
            rows = 1 if parameter.grad is None else parameter.grad.sparse_dim()
            parameter.grad = average.to_sparse(rows)
        elif parameter.grad is None:
            parameter.grad = average
        elif parameter.grad.data_ptr() != average.data_ptr():
            parameter.grad.detach().copy_(average)

    def discard(self) -> None:
        """Begin the step anew without the gradients that were computed; none may be due.

        Another rank may have sent its own of what is due, so that they are owed to it.
        """
        if self._early_error is not None:
            self.settle()
        if self.is_due:
            raise AssertionError(
                "zero_grad() was called while gradients are being exchanged; call step() or "
                "synchronize() first."
            )
        self.begin_step()

    def begin_step(self) -> None:
        """Expect gradients again, if there were some."""
        if self.is_idle:
            return
        self._settled = self._is_early = False
        self._units_in_step = None
        self._passes = 0
        self._passes_per_step = self._passes_wanted
        for slot in self._watched:
            slot.passes = 0
            slot.is_used = True
            slot.own_layout = NO_GRADIENT
            slot.wire = slot.sent = None
            unit = cast(Unit, slot.unit)
            unit.ready = 0
            unit.is_done = False

    def check_replicas(self) -> None:
        """Raise on every rank unless the optimizer's parameters are equal on all of them."""
        if self.is_active:
            self._follow_session()
            own = [slot for slot in self._slots.values() if slot.is_own]
            named = [(slot.name, slot.parameter) for slot in own]
            name = f"optimizer{self._ending.text}"
            check_replicas(named, name, self.options.process_set)

    def start_loss(self, loss: float) -> Handle[torch.Tensor]:
        """Start to combine the losses of the ranks as their gradients are."""
        own = torch.tensor([loss], dtype=torch.float64)
        self._follow_session()
        name = f"optimizer{self._ending.text}.loss"
        call = Call(operation_of(self.options.op), name, process_set=self.options.process_set)
        return exchange(call, own, own)
