"""What a distributed optimizer of Keras 3 does before its own class does the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import keras

from byteps.keras.backends import BACKEND
from byteps.keras_common.combining import combined
from byteps.keras_common.settings import OptimizerPart, Settings


class Distributed:
    """Combines gradients over all ranks. Stands before the class of an optimizer.

    Trainers call `apply`; that of JAX calls `stateless_apply`.
    """

    byteps_settings: ClassVar[Settings]

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """Make the optimizer as its own class does."""
        super().__init__(*arguments, **keywords)
        self.byteps_part = OptimizerPart(self.byteps_settings)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse to be inside a LossScaleOptimizer, which takes away the scale of its own."""
        if name == "loss_scale_factor" and value is None and "byteps_part" in vars(self):
            raise ValueError(
                "a distributed optimizer cannot be inside a LossScaleOptimizer, because the ranks "
                "would exchange only where a rank's own gradients are finite. Put the "
                "LossScaleOptimizer inside: "
                "DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer)). With a "
                "model of mixed_float16, Keras would put one outside: call "
                "keras.mixed_precision.set_dtype_policy('mixed_float16') before "
                "DistributedOptimizer, or do as above."
            )
        super().__setattr__(name, value)

    def register_local_var(self, var: Any) -> None:
        """Do not exchange the gradient of a variable, which this rank alone has."""
        self.byteps_part.register_local(var)

    def __deepcopy__(self, memo: Any) -> Any:
        """Copy what the class copies, which is the config; the copy is distributed, too."""
        del memo
        own: Any = self
        return type(own).from_config(own.get_config())

    def __reduce__(self) -> Any:
        """Save as the optimizer that this one was made of: it loads without byteps."""
        saved: Any = super().__reduce__()
        load, arguments = saved
        return getattr(type(self).__mro__[2], load.__name__), arguments

    # State beside that of the class: sums of the passes of a step.

    def build(self, variables: Sequence[Any]) -> None:
        """Make the variables."""
        super().build(variables)  # type: ignore[misc]
        part: OptimizerPart = self.byteps_part
        if part.settings.passes == 1 or part.passes is not None:
            return
        add: Any = self
        part.sums = [
            add.add_variable_from_reference(variable, name="passes_sum") for variable in variables
        ]
        part.passes = add.add_variable(
            (), initializer="zeros", dtype="int32", aggregation="none", name="passes"
        )

    @property
    def variables(self) -> list[Any]:
        """The variables of the optimizer. While it is saved, those of its class."""
        found = super().variables  # type: ignore[misc]
        part: OptimizerPart | None = vars(self).get("byteps_part")
        if part is None or not part.hides_own:
            return list(found)
        own = {id(variable) for variable in part.own_variables}
        return [variable for variable in found if id(variable) not in own]

    def save_own_variables(self, store: Any) -> None:
        """Save what the class saves, so that it can load that without byteps."""
        with _with(self.byteps_part, "hides_own"):
            super().save_own_variables(store)  # type: ignore[misc]

    def load_own_variables(self, store: Any) -> None:
        """Load what the class has saved."""
        with _with(self.byteps_part, "hides_own"):
            super().load_own_variables(store)  # type: ignore[misc]

    # Steps.

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Combine the gradients, then do what the class does."""
        part: OptimizerPart = self.byteps_part
        step = super().apply  # type: ignore[misc]
        grads = list(grads)
        if part.is_inside or not grads:
            step(grads, trainable_variables)
            return
        own: Any = self
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
        elif not own.built:
            step(grads)  # which raises, and says what to do
            return
        variables = own._trainable_variables if trainable_variables is None else trainable_variables
        with _with(part, "is_inside"):
            if part.settings.passes == 1:
                step(combined(BACKEND, part, grads, variables), trainable_variables)
                return
            if not own.built:
                with keras.name_scope(own.name):
                    own.build(variables)
                own.built = True
            self._accumulate(step, grads, variables)

    def _accumulate(
        self, step: Callable[..., None], grads: list[Any], variables: Sequence[Any]
    ) -> None:
        own: Any = self
        part: OptimizerPart = self.byteps_part
        places = [own._get_variable_index(variable) for variable in variables]
        as_dense = part.settings.options.sparse_as_dense
        totals = _added([part.sums[place].value for place in places], grads, as_dense)

        def last() -> None:
            step(combined(BACKEND, part, self._of_passes(totals), variables), variables)
            for place in places:
                # Assigned, not multiplied by zero: infinity must not stay.
                part.sums[place].assign(keras.ops.zeros_like(part.sums[place].value))
            part.passes.assign(0)

        def other() -> None:
            for place, total in zip(places, totals, strict=True):
                if total is not None:
                    part.sums[place].assign(total)
            part.passes.assign_add(1)
            own.iterations.assign_add(1)

        is_last = part.passes.value + 1 == part.settings.passes
        if BACKEND.is_concrete(is_last):
            last() if bool(is_last) else other()
        else:
            keras.ops.cond(is_last, last, other)

    def _of_passes(self, totals: list[Any]) -> list[Any]:
        """Return the gradients of a step, of which `totals` are the sums."""
        settings = self.byteps_settings
        if not settings.divides_by_passes:
            return totals
        return [total if total is None else total / settings.passes for total in totals]

    def stateless_apply(
        self, optimizer_variables: Any, grads: Any, trainable_variables: Any
    ) -> tuple[Any, Any]:
        """Combine the gradients, then do what the class does."""
        part: OptimizerPart = self.byteps_part
        step: Callable[..., tuple[Any, Any]] = super().stateless_apply  # type: ignore[misc]
        own: Any = self
        if part.is_inside or not own.built:
            return step(optimizer_variables, grads, trainable_variables)
        variables = own._trainable_variables
        with _with(part, "is_inside"):
            if part.settings.passes == 1:
                grads = combined(BACKEND, part, grads, variables)
                return step(optimizer_variables, grads, trainable_variables)
            return self._accumulate_stateless(step, optimizer_variables, grads, trainable_variables)

    def _accumulate_stateless(
        self,
        step: Callable[..., tuple[Any, Any]],
        optimizer_variables: Sequence[Any],
        grads: Sequence[Any],
        trainable_variables: Sequence[Any],
    ) -> tuple[Any, Any]:
        own: Any = self
        part: OptimizerPart = self.byteps_part
        state = list(optimizer_variables)
        place_of = {id(variable): place for place, variable in enumerate(self.variables)}
        sums = [place_of[id(variable)] for variable in part.sums]
        passes, iterations = place_of[id(part.passes)], place_of[id(own.iterations)]
        as_dense = part.settings.options.sparse_as_dense
        totals = _added([state[place] for place in sums], grads, as_dense)

        def last() -> tuple[Any, Any]:
            gradients = combined(BACKEND, part, self._of_passes(totals), own._trainable_variables)
            weights, after = step(state, gradients, trainable_variables)
            after = list(after)
            for place in (passes, *sums):
                after[place] = keras.ops.zeros_like(state[place])
            return list(weights), after

        def other() -> tuple[Any, Any]:
            after = list(state)
            for place, total in zip(sums, totals, strict=True):
                after[place] = state[place] if total is None else total
            after[passes] = state[passes] + 1
            after[iterations] = state[iterations] + 1
            return list(trainable_variables), after

        found: tuple[Any, Any] = keras.ops.cond(
            state[passes] + 1 == part.settings.passes, last, other
        )
        return found


def _added(sums: Sequence[Any], gradients: Sequence[Any], sparse_as_dense: bool) -> list[Any]:
    """Return the sums with the gradients added; None where there is no gradient."""
    totals = []
    for total, gradient in zip(sums, gradients, strict=True):
        if gradient is not None and BACKEND.is_sparse(gradient):
            if not sparse_as_dense:
                raise ValueError(
                    "backward_passes_per_step above 1 cannot add up sparse gradients. Pass "
                    "sparse_as_dense=True to DistributedOptimizer."
                )
            gradient = BACKEND.to_dense(gradient)
        totals.append(None if gradient is None else keras.ops.add(total, gradient))
    return totals


@contextmanager
def _with(part: OptimizerPart, flag: str) -> Iterator[None]:
    before = getattr(part, flag)
    setattr(part, flag, True)
    try:
        yield
    finally:
        setattr(part, flag, before)
