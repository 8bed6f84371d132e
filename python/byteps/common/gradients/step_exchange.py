"""The exchange of all gradients of a step: sent during backward, complete when somebody asks."""

from __future__ import annotations

from byteps.common.errors import BytepsError, MismatchError
from byteps.common.gradients.exchange_options import ExchangeOptions, check_passes
from byteps.common.gradients.gradient_exchange import (
    TOO_MANY_PASSES,
    Entry,
    ExchangeNames,
    GradientExchange,
    Gradients,
    Parameter,
    Question,
    Unit,
)
from byteps.common.gradients.usage import NO_GRADIENT
from byteps.common.operations.reduction import Average


class StepExchange(GradientExchange[Parameter]):
    """Exchanges the gradients of some parameters: once each in a step. One thread at a time."""

    def __init__(
        self, options: ExchangeOptions, gradients: Gradients[Parameter], names: ExchangeNames
    ) -> None:
        super().__init__(options, gradients, names)
        self._passes_wanted = self._passes_per_step
        self._passes = 0  # of this step: the most that a parameter has had
        self._watched: list[Entry[Parameter]] = []
        self._flying: list[Unit[Parameter]] = []
        self._settled = False
        # The end of backward has settled the step, and nobody has asked for that; it may have
        # failed, and whoever asks is told.
        self._is_early = False
        self._early_error: Exception | None = None
        self._units_in_step: int | None = None  # see _trained_units
        self._question: Question[Parameter] | None = None  # asked once in a step
        self._changed: Exception | None = None  # what the step ends with when all has come in

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
        """Whether all passes of a step were made, and nobody has asked for the averages yet.

        All ranks have made them then, whichever parameters theirs have used and sent.
        """
        is_complete = self._passes >= self._passes_per_step and not self._settled
        return is_complete or self._is_early or bool(self._flying)

    def watch(self, parameter: Parameter) -> bool:
        """Exchange the parameter's gradient from now on; its framework calls `on_gradient` when
        backward has finished it. Returns False if that was said before."""
        entry = self._entries.get(parameter)
        if entry is None:
            entry = self.add(parameter, self.next_name())
            entry.is_own = True
        if entry.is_watched:
            return False
        entry.is_watched = True
        self._watched.append(entry)
        self._units_in_step = None
        return True

    def set_passes(self, passes: int) -> None:
        """Expect so many backward passes before a step: the next one, if this one has begun."""
        check_passes(passes)
        self._passes_wanted = passes
        if self.is_idle:
            self._passes_per_step = passes

    def on_gradient(self, parameter: Parameter) -> None:
        """Count a gradient that backward has finished, and send what is complete."""
        if not self.is_active:
            return
        entry = self._entries[parameter]
        if self.options.op is Average and self.is_settled:
            # The step was skipped (GradScaler) and the gradients cleared behind our back. If they
            # were not, what comes on top of an average has the same average.
            self.begin_step()
        if self._settled:
            raise AssertionError(TOO_MANY_PASSES)
        is_complete = self.count(entry)
        self._passes = max(self._passes, entry.passes)
        if not is_complete:
            return
        self._flying.append(entry.unit)
        self.send(entry.unit)
        if len(self._flying) == self._trained_units():
            # As it is with torch's own DistributedDataParallel: what changes gradients after
            # backward, for instance clips them, finds the averages.
            self._gradients.at_end_of_backward(self._settle_early)

    def _trained(self, entries: list[Entry[Parameter]]) -> list[Entry[Parameter]]:
        is_trained = self._gradients.is_trained
        return [entry for entry in entries if is_trained(entry.parameter)]

    def _trained_units(self) -> int:
        """Return how many units leave in a step that uses all parameters; 0 when some parameter is
        not watched yet, so that nobody knows."""
        if self._units_in_step is None:
            trained = self._trained([entry for entry in self._entries.values() if entry.is_own])
            is_known = all(entry.is_watched for entry in trained)
            self._units_in_step = len({id(entry.unit) for entry in trained}) if is_known else 0
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
        trained = self._trained(self._watched)
        units = dict.fromkeys(entry.unit for entry in trained)
        rest = [unit for unit in units if not unit.is_done and not unit.flights]
        if not self._settled and self._question is None:
            self._question = self.ask(trained)
            self._settled = True
        errors: list[Exception] = []
        try:
            self._send_rest(rest)
            self._learn()
        except MismatchError:
            self.abandon()
            raise
        except BytepsError as error:
            errors.append(error)
        if self._changed is not None:
            errors.append(self._changed)
            self._changed = None
        flying, self._flying = self._flying, []
        for unit in flying:
            unit.is_done = True
            try:
                self.receive(unit)
            except BytepsError as error:
                errors.append(error)
        if errors:
            self.begin_step()
            raise errors[0]

    def _send_rest(self, rest: list[Unit[Parameter]]) -> None:
        """Send gradients that backward did not finish.

        Nothing is sent of what nobody has ever used. A rank that sees a parameter unused before
        all know how its gradients are stored waits until it is told.
        """
        unknown = []
        for unit in rest:
            if self._question is not None and self.is_unknown(unit):
                unknown.append(unit)
            else:
                self._send(unit)
        if unknown:
            self._learn()
        for unit in unknown:
            if any(entry.storage != NO_GRADIENT for entry in unit.entries):
                self._send(unit)
            else:
                unit.is_done = True

    def _send(self, unit: Unit[Parameter]) -> None:
        self._flying.append(unit)
        self.send(unit)

    def _learn(self) -> None:
        """Wait until it is known who has a gradient of what."""
        question, self._question = self._question, None
        if question is not None:
            self._changed = question.learn()

    def abandon(self) -> None:
        """Wait for no gradient: some are of parameters that other ranks do not have, or of a
        session that is over. Begins the step anew."""
        self._question = None
        self._settled = True
        flying, self._flying = self._flying, []
        for unit in flying:
            self.forget(unit)
        self.begin_step()

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
        for unit in {id(entry.unit): entry.unit for entry in self._watched}.values():
            unit.begin()
